#include "controller/timetable.hh"

#include "core/base/clock.hh"

#include <cmath>
#include <cstdint>

namespace reprise::controller {

Nanoseconds Timetable::by_rate(std::uint64_t query) const {
    // long double: 64 bits of mantissa keep nanoseconds over centuries
    return std::llroundl(static_cast<long double>(query) * 1e9L /
                         static_cast<long double>(pace_.rate));
}

Nanoseconds Timetable::due_of_close(Nanoseconds time) const {
    return pace_.rate > 0 && !pace_.fast ? by_rate(taken_ - 1) : due(time);
}

Nanoseconds Timetable::due(Nanoseconds time) const {
    if (pace_.fast) {
        return 0;
    }
    if (pace_.rate > 0) {
        return by_rate(taken_);
    }
    const Nanoseconds since = taken_ == 0 ? 0 : time - first_;
    return pace_.speed == 1 ? since : std::llround(static_cast<double>(since) / pace_.speed);
}

void Timetable::take(Nanoseconds time) {
    if (taken_++ == 0) {
        first_ = time;
    }
    laps_.note(time);
}

} // namespace reprise::controller
