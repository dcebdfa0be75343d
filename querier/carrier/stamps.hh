#pragma once
// The kernel stamps packets with the realtime clock; records use CLOCK_MONOTONIC. One pair of
// readings per batch converts. A stepped realtime clock (set by hand, by a coarse time daemon, by a
// resumed virtual machine) shows as a jump of their difference.

#include "core/base/clock.hh"

#include <cstdint>
#include <cstdlib>

namespace reprise::querier {

class StampClock {
public:
    /// A new batch with this pair. More than drift between two batches is a step.
    void sample(const ClockPair& pair) {
        const Nanoseconds jump = std::abs(pair.offset() - pair_.offset());
        const Nanoseconds drift = (pair.monotonic - pair_.monotonic) / kDriftDivisor;
        if (sampled_ && jump > kStep + drift) {
            ++steps_;
            unsure_until_ = pair.monotonic + kUnsure;
        }
        stepped_ = pair.monotonic < unsure_until_;
        sampled_ = true;
        pair_ = pair;
    }

    /// A stamp of this batch as CLOCK_MONOTONIC. Soon after a step nobody knows which clock a stamp
    /// is of: the result is then the batch's own time.
    [[nodiscard]] Nanoseconds convert(Nanoseconds stamp) const {
        return stepped_ || stamp == 0 ? pair_.monotonic : pair_.to_monotonic(stamp);
    }

    /// The realtime of a CLOCK_MONOTONIC instant.
    [[nodiscard]] Nanoseconds to_realtime(Nanoseconds monotonic) const {
        return monotonic + pair_.offset();
    }

    /// This batch saw a step, or comes so soon after one that its stamps may be older.
    [[nodiscard]] bool stepped() const { return stepped_; }

    [[nodiscard]] std::uint64_t steps() const { return steps_; }

private:
    static constexpr Nanoseconds kStep = 500 * kMicrosecond;
    /// The kernel slews by at most 500 ppm, twice that under adjtimex's tick: 1/1000 of the time
    /// between batches.
    static constexpr Nanoseconds kDriftDivisor = 1000;
    /// Packets stamped before a step may wait so long in a socket until they are read.
    static constexpr Nanoseconds kUnsure = 100 * kMillisecond;

    ClockPair pair_;
    bool sampled_ = false;
    bool stepped_ = false;
    Nanoseconds unsure_until_ = 0;
    std::uint64_t steps_ = 0;
};

} // namespace reprise::querier
