#pragma once
#include "core/base/clock.hh"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace reprise {

/// The trace's time without the steps back that its clock was set by: what follows one goes on from
/// the latest time before it. A smaller way back is the disorder of packets, and stays.
class SteadyTime {
public:
    /// `most`: the longest way back that is no step; none: nothing is.
    explicit SteadyTime(std::optional<Nanoseconds> most) : most_(most) {}

    /// Of the next query or message, in the trace's order.
    Nanoseconds of_query(Nanoseconds time) {
        Nanoseconds back = 0; // a text file may hold any times: beyond the range is no step
        if (any_ && most_ && !__builtin_sub_overflow(latest_, of_close(time), &back) &&
            back > *most_) {
            shift_ += back;
            ++steps_;
        }
        latest_ = any_ ? std::max(latest_, of_close(time)) : time;
        any_ = true;
        return of_close(time);
    }

    /// Of a close between them, which takes no step itself: it may be told late.
    [[nodiscard]] Nanoseconds of_close(Nanoseconds time) const {
        Nanoseconds steady = 0;
        return __builtin_add_overflow(time, shift_, &steady) ? time : steady;
    }

    /// The trace begins again.
    void next_lap() {
        any_ = false;
        shift_ = 0;
    }

    [[nodiscard]] std::uint64_t steps() const { return steps_; }

private:
    std::optional<Nanoseconds> most_;
    bool any_ = false;
    Nanoseconds latest_ = 0; ///< of this lap
    Nanoseconds shift_ = 0;
    std::uint64_t steps_ = 0;
};

} // namespace reprise
