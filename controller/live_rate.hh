#pragma once
#include "core/base/clock.hh"

#include <cstdint>

namespace reprise::controller {

/// Queries a second for the live view. Counts are some tenths of a second old when they arrive, now
/// more and now less: what counts is when they were taken, not when they are shown.
class LiveRate {
public:
    /// `sent` queries so far, as counted at `time` after the start.
    void count(std::uint64_t sent, Nanoseconds time) {
        if (time > time_ && sent > 0) { // before, nobody may have counted yet
            value_ = static_cast<double>(sent - sent_) * 1e9 / static_cast<double>(time - time_);
            sent_ = sent;
            time_ = time;
        }
    }

    /// Between the last two counts.
    [[nodiscard]] double value() const { return value_; }

private:
    std::uint64_t sent_ = 0;
    Nanoseconds time_ = 0;
    double value_ = 0;
};

} // namespace reprise::controller
