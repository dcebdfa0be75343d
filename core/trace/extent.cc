#include "core/trace/extent.hh"

#include "core/base/clock.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::trace {
namespace {

double mean(double sum, std::uint64_t count) {
    return count == 0 ? 0 : sum / static_cast<double>(count);
}

} // namespace

std::string Extent::line() const {
    return fmt::format(
        "extent queries={:.0f} span_s={:.3f} query_bytes={:.0f} response_bytes={:.0f}", queries,
        span_s, query_bytes, response_bytes);
}

void Sample::add_query(Nanoseconds time, size_t bytes, double share_read) {
    if (!any()) {
        first_ = last_ = time;
        first_share_ = share_read;
    }
    ++queries_;
    query_bytes_ += static_cast<double>(bytes);
    last_ = std::max(last_, time);
    last_share_ = share_read;
}

void Sample::add_response(size_t bytes) {
    ++responses_;
    response_bytes_ += static_cast<double>(bytes);
}

/// By how much the wanted part is longer than the sample; 0: nobody knows.
double Sample::growth(std::optional<Nanoseconds> until) const {
    if (ended_) {
        return 1;
    }
    const double seen = last_share_ - first_share_;
    const double whole = seen > 0 ? (1 - first_share_) / seen : 0;
    if (!until || last_ <= first_) {
        return whole;
    }
    const auto first = static_cast<double>(first_);
    const double wanted =
        (static_cast<double>(*until) - first) / (static_cast<double>(last_) - first);
    return whole > 0 ? std::min(whole, wanted) : wanted;
}

Extent Sample::extent(std::optional<Nanoseconds> until) const {
    const double times = growth(until);
    return {.queries = static_cast<double>(queries_) * times,
            .span_s = (static_cast<double>(last_) - static_cast<double>(first_)) / 1e9 * times,
            .query_bytes = mean(query_bytes_, queries_),
            .response_bytes = mean(response_bytes_, responses_)};
}

} // namespace reprise::trace
