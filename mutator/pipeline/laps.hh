#pragma once
// The time of an input that is read several times. A lap begins one mean gap after the last query
// of the lap before it, as in the controller's --loop, so that the rate goes on over the seam.

#include "core/base/clock.hh"

#include <algorithm>
#include <cstdint>

namespace reprise::mutator {

class LapClock {
public:
    /// Notes a query's time and returns it on the axis that goes on over all laps.
    Nanoseconds query(Nanoseconds time) {
        if (queries_++ == 0) {
            first_ = last_ = time;
        }
        last_ = std::max(last_, time);
        return time + shift_;
    }

    /// The same for what is no query.
    [[nodiscard]] Nanoseconds other(Nanoseconds time) const { return time + shift_; }

    /// When the next lap's first query will be, on that axis.
    [[nodiscard]] Nanoseconds next_begin() const { return last_ + shift_ + gap(); }

    void next_lap() {
        shift_ += last_ - first_ + gap();
        queries_ = 0;
    }

private:
    [[nodiscard]] Nanoseconds gap() const {
        const Nanoseconds span = last_ - first_;
        if (span == 0) {
            return kSecond; // a trace of one moment has no gap; a second ends the burst
        }
        const auto gaps = static_cast<Nanoseconds>(std::max<std::uint64_t>(queries_, 2) - 1);
        return std::max<Nanoseconds>(span / gaps, 1);
    }

    Nanoseconds first_ = 0; ///< of this lap, in the trace
    Nanoseconds last_ = 0;  ///< latest of this lap
    Nanoseconds shift_ = 0;
    std::uint64_t queries_ = 0; ///< of this lap
};

} // namespace reprise::mutator
