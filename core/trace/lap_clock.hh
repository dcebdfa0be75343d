#pragma once
#include "core/base/clock.hh"

#include <algorithm>
#include <cstdint>

namespace reprise::trace {

/// The time of a trace that is read several times. A lap begins one mean gap after the last query
/// of the lap before it, so that the rate goes on over the seam without a pause or a burst.
class LapClock {
public:
    /// A time of this lap on the axis that goes on over all laps.
    [[nodiscard]] Nanoseconds shifted(Nanoseconds time) const { return time + shift_; }

    /// Notes a query, by its time on that axis.
    void note(Nanoseconds time) {
        if (queries_++ == 0) {
            first_ = last_ = time;
        }
        last_ = std::max(last_, time);
    }

    /// When the next lap's first query will be, on that axis.
    [[nodiscard]] Nanoseconds next_begin() const { return last_ + gap(); }

    void next_lap() {
        shift_ += last_ - first_ + gap();
        queries_ = 0;
    }

    /// Noted in this lap.
    [[nodiscard]] std::uint64_t queries() const { return queries_; }

private:
    [[nodiscard]] Nanoseconds gap() const {
        const Nanoseconds span = last_ - first_;
        if (span == 0) {
            return kSecond; // a trace of one moment has no gap; a second ends the burst
        }
        const auto gaps = static_cast<Nanoseconds>(std::max<std::uint64_t>(queries_, 2) - 1);
        return std::max<Nanoseconds>(span / gaps, 1);
    }

    Nanoseconds first_ = 0; ///< of this lap
    Nanoseconds last_ = 0;  ///< latest of this lap
    Nanoseconds shift_ = 0;
    std::uint64_t queries_ = 0;
};

} // namespace reprise::trace
