#pragma once
// From the times of a trace to those at which its queries are due.

#include "core/base/clock.hh"
#include "core/base/trace_time.hh"
#include "core/wire/settings.hh"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace reprise::controller {

/// When each query is due. Trace time: at its distance from the first query, divided by the speed.
/// A rate: query i at i / rate, whatever the trace says. Fast: all at once, at 0.
class Timetable {
public:
    explicit Timetable(const Settings& settings)
        : speed_(settings.speed), rate_(settings.rate), fast_(settings.fast) {}

    /// Due time of the query of this trace time (of this lap, shifted()), if it is the next one.
    [[nodiscard]] Nanoseconds due(Nanoseconds time) const {
        if (fast_) {
            return 0;
        }
        if (rate_ > 0) {
            return by_rate(taken_);
        }
        const Nanoseconds since = taken_ == 0 ? 0 : time - first_;
        constexpr double kMost = 4e18; // a century; the difference of two fits into 64 bits
        return speed_ == 1
                   ? since
                   : std::llround(std::clamp(static_cast<double>(since) / speed_, -kMost, kMost));
    }

    /// Due time of what happened at this trace time after a query: with a rate, that of the query.
    /// Needs a query taken.
    [[nodiscard]] Nanoseconds due_of_close(Nanoseconds time) const {
        return rate_ > 0 && !fast_ ? by_rate(taken_ - 1) : due(time);
    }

    /// The query is handed out: the next one follows.
    void take(Nanoseconds time) {
        if (taken_++ == 0) {
            first_ = time;
        }
        laps_.note(time);
    }

    /// The trace begins again.
    void next_lap() { laps_.next_lap(); }

    /// A trace time of this lap on the axis that goes on over all laps.
    [[nodiscard]] Nanoseconds shifted(Nanoseconds time) const { return laps_.shifted(time); }

    /// Queries taken in this lap, and in all.
    [[nodiscard]] std::uint64_t taken_in_lap() const { return laps_.queries(); }

    [[nodiscard]] std::uint64_t taken() const { return taken_; }

private:
    [[nodiscard]] Nanoseconds by_rate(std::uint64_t query) const {
        // long double: 64 bits of mantissa keep nanoseconds over centuries
        return std::llroundl(static_cast<long double>(query) * 1e9L /
                             static_cast<long double>(rate_));
    }

    double speed_;
    double rate_; ///< queries a second; 0: trace time
    bool fast_;
    LapClock laps_;
    Nanoseconds first_ = 0; ///< of the whole replay
    std::uint64_t taken_ = 0;
};

} // namespace reprise::controller
