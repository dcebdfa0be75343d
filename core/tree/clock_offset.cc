#include "core/tree/clock_offset.hh"

#include "core/base/clock.hh"

#include <algorithm>

namespace reprise::tree {
namespace {

constexpr Nanoseconds kLatest = 10 * kSecond;

} // namespace

void ClockOffset::add(Nanoseconds sent, Nanoseconds remote, Nanoseconds received) {
    const ClockSample sample{.when = received,
                             .offset = remote - (sent + (received - sent) / 2),
                             .round_trip = received - sent};
    if (count_++ == 0 || (!settled_ && sample.round_trip < best_.round_trip)) {
        best_ = sample;
    }
    if (series_.empty() || sample.when / kSecond != series_.back().when / kSecond) {
        series_.push_back(sample);
    } else if (sample.round_trip < series_.back().round_trip) {
        series_.back() = sample;
    }
}

ClockSample ClockOffset::latest() const {
    if (series_.empty()) {
        return {};
    }
    const Nanoseconds end = series_.back().when;
    const Nanoseconds begin = end - std::min(kLatest, (end - series_.front().when) / 2);
    const auto recent = std::ranges::find_if(
        series_, [begin](const ClockSample& sample) { return sample.when >= begin; });
    return *std::ranges::min_element(recent, series_.end(), {}, &ClockSample::round_trip);
}

} // namespace reprise::tree
