#pragma once
// A host's clock offset by in-band probes: of many, the one with the least round trip has the least
// asymmetry, so it says most (the filter of NTP, RFC 5905 section 10). Its error is at most half
// its round trip.

#include "core/base/clock.hh"

#include <vector>

namespace reprise::tree {

struct ClockSample {
    Nanoseconds when = 0;   ///< own clock
    Nanoseconds offset = 0; ///< the other clock minus ours
    Nanoseconds round_trip = 0;
};

class ClockOffset {
public:
    /// A probe sent at `sent` (own clock), answered at `remote` (other clock), back at `received`
    /// (own clock).
    void add(Nanoseconds sent, Nanoseconds remote, Nanoseconds received);

    [[nodiscard]] size_t count() const { return count_; }

    /// The sample with the least round trip so far, or until settle().
    [[nodiscard]] const ClockSample& best() const { return best_; }

    /// best() stays as it is: times were announced by it.
    void settle() { settled_ = true; }

    /// The sample with the least round trip of the last ten seconds; of the second half where there
    /// are less than twenty. Equal to best() where no time has passed.
    [[nodiscard]] ClockSample latest() const;

    /// One sample for each second, the best of that second: how the clocks drift. Recorded, never
    /// applied during a run.
    [[nodiscard]] const std::vector<ClockSample>& series() const { return series_; }

private:
    size_t count_ = 0;
    bool settled_ = false;
    ClockSample best_;
    std::vector<ClockSample> series_;
};

} // namespace reprise::tree
