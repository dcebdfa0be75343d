#include "core/trace/extent.hh"

#include "core/base/clock.hh"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

namespace reprise::trace {

std::string Extent::line() const {
    return fmt::format("extent queries={:.0f} span_s={:.3f}", queries, span_s);
}

void Sample::add(Nanoseconds time, double share_read) {
    if (!any()) {
        first_ = last_ = time;
        first_share_ = share_read;
    }
    ++queries_;
    last_ = std::max(last_, time);
    last_share_ = share_read;
}

Extent Sample::extent(std::optional<Nanoseconds> until) const {
    const auto seconds = [](Nanoseconds time) { return static_cast<double>(time) / 1e9; };
    const double span = seconds(last_) - seconds(first_);
    const double seen = last_share_ - first_share_;
    double times = 1; // by which the wanted part is longer than the sample
    if (!ended_) {
        times = seen > 0 ? (1 - first_share_) / seen : 0;
        if (until && span > 0) {
            const double wanted = (seconds(*until) - seconds(first_)) / span;
            times = times > 0 ? std::min(times, wanted) : wanted;
        }
    }
    return {.queries = static_cast<double>(queries_) * times, .span_s = span * times};
}

} // namespace reprise::trace
