#pragma once
// Times of a trace: as people write them in options and rules, and without the steps of its clock.

#include "core/base/clock.hh"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise {

/// A place in a trace: seconds from its first query, or an absolute time.
struct TraceTime {
    bool absolute = false;
    Nanoseconds value = 0; ///< since the epoch, or since the first query

    [[nodiscard]] Nanoseconds in_trace(Nanoseconds first) const {
        return absolute ? value : first + value;
    }

    /// Parses "12.5" (seconds from the first query), "1475762151.394" (from 100,000,000 on seconds
    /// since the epoch) or RFC 3339, "2016-10-06T13:55:51.394Z", "...+02:00". Exact to the
    /// nanosecond.
    static std::optional<TraceTime> parse(std::string_view text);
};

/// Decimal seconds with at most 9 decimals; nothing where it is none or out of range. `sign`:
/// whether "-" may stand before it.
std::optional<Nanoseconds> parse_seconds(std::string_view text, bool sign = false);

/// A number as text that parse_seconds() takes if it can: without an exponent down to 1e-9.
std::string decimal_text(double value);

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
