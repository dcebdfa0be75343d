#include "core/tree/clock_offset.hh"

#include "core/clock.hh"

namespace reprise::tree {

void ClockOffset::add(Nanoseconds sent, Nanoseconds remote, Nanoseconds received) {
    const ClockSample sample{.when = received,
                             .offset = remote - (sent + (received - sent) / 2),
                             .round_trip = received - sent};
    if (count_++ == 0 || sample.round_trip < best_.round_trip) {
        best_ = sample;
    }
    if (series_.empty() || sample.when / kSecond != series_.back().when / kSecond) {
        series_.push_back(sample);
    } else if (sample.round_trip < series_.back().round_trip) {
        series_.back() = sample;
    }
}

} // namespace reprise::tree
