#pragma once
// From the times of a trace to those at which its queries are due.

#include "core/base/clock.hh"
#include "core/base/trace_time.hh"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace reprise::controller {

struct Pace {
    double speed = 1;
    double rate = 0; ///< queries a second; 0: trace time
    bool fast = false;
};

/// When each query is due. Trace time: at its distance from the first query, divided by the speed.
/// A rate: query i at i / rate, whatever the trace says. Fast: all at once, at 0.
class Timetable {
public:
    explicit Timetable(const Pace& pace) : pace_(pace) {}

    /// Due time of the query of this trace time (of this lap, shifted()), if it is the next one.
    [[nodiscard]] Nanoseconds due(Nanoseconds time) const {
        if (pace_.fast) {
            return 0;
        }
        if (pace_.rate > 0) {
            return by_rate(taken_);
        }
        const Nanoseconds since = taken_ == 0 ? 0 : time - first_;
        constexpr double kMost = 4e18; // a century; the difference of two fits into 64 bits
        return pace_.speed == 1 ? since
                                : std::llround(std::clamp(static_cast<double>(since) / pace_.speed,
                                                          -kMost, kMost));
    }

    /// Due time of what happened at this trace time after a query: with a rate, that of the query.
    /// Needs a query taken.
    [[nodiscard]] Nanoseconds due_of_close(Nanoseconds time) const {
        return pace_.rate > 0 && !pace_.fast ? by_rate(taken_ - 1) : due(time);
    }

    /// The query is handed out: the next one follows.
    void take(Nanoseconds time) {
        if (taken_++ == 0) {
            first_ = time;
        }
        laps_.note(time);
    }

    /// The trace begins again.
    void next_lap() { laps_.next_lap(); }

    /// A trace time of this lap on the axis that goes on over all laps.
    [[nodiscard]] Nanoseconds shifted(Nanoseconds time) const { return laps_.shifted(time); }

    /// Queries taken in this lap, and in all.
    [[nodiscard]] std::uint64_t taken_in_lap() const { return laps_.queries(); }

    [[nodiscard]] std::uint64_t taken() const { return taken_; }

private:
    [[nodiscard]] Nanoseconds by_rate(std::uint64_t query) const {
        // long double: 64 bits of mantissa keep nanoseconds over centuries
        return std::llroundl(static_cast<long double>(query) * 1e9L /
                             static_cast<long double>(pace_.rate));
    }

    Pace pace_;
    LapClock laps_;
    Nanoseconds first_ = 0; ///< of the whole replay
    std::uint64_t taken_ = 0;
};

/// The stretch of the trace that is replayed: from `from` up to, not including, `until`.
class Span {
public:
    Span(std::optional<TraceTime> from, std::optional<TraceTime> until)
        : from_(from), until_(until) {}

    /// The time of the trace's first query, by which relative times count.
    void set_first(Nanoseconds first) { first_ = first; }

    [[nodiscard]] Nanoseconds first() const { return first_; }

    [[nodiscard]] bool before(Nanoseconds time) const {
        return from_ && time < from_->in_trace(first_);
    }

    [[nodiscard]] bool after(Nanoseconds time) const {
        return until_ && time >= until_->in_trace(first_);
    }

    /// Where it ends, if not with the trace.
    [[nodiscard]] std::optional<Nanoseconds> end() const {
        return until_ ? std::optional(until_->in_trace(first_)) : std::nullopt;
    }

private:
    std::optional<TraceTime> from_;
    std::optional<TraceTime> until_;
    Nanoseconds first_ = 0;
};

} // namespace reprise::controller
