#pragma once
// When each query is due. Trace time: at its distance from the first query, divided by the speed.
// A rate: query i at i / rate, whatever the trace says. Fast: all at once, at 0.

#include "core/base/clock.hh"
#include "core/trace/lap_clock.hh"

#include <cstdint>

namespace reprise::controller {

struct Pace {
    double speed = 1;
    double rate = 0; ///< queries a second; 0: trace time
    bool fast = false;
};

class Timetable {
public:
    explicit Timetable(const Pace& pace) : pace_(pace) {}

    /// Due time of the query of this trace time (of this lap, shifted()), if it is the next one.
    [[nodiscard]] Nanoseconds due(Nanoseconds time) const;

    /// Due time of what happened at this trace time after a query: with a rate, that of the query.
    /// Needs a query taken.
    [[nodiscard]] Nanoseconds due_of_close(Nanoseconds time) const;

    /// The query is handed out: the next one follows.
    void take(Nanoseconds time);

    /// The trace begins again.
    void next_lap() { laps_.next_lap(); }

    /// A trace time of this lap on the axis that goes on over all laps.
    [[nodiscard]] Nanoseconds shifted(Nanoseconds time) const { return laps_.shifted(time); }

    /// Queries taken in this lap, and in all.
    [[nodiscard]] std::uint64_t taken_in_lap() const { return laps_.queries(); }

    [[nodiscard]] std::uint64_t taken() const { return taken_; }

private:
    [[nodiscard]] Nanoseconds by_rate(std::uint64_t query) const;

    Pace pace_;
    trace::LapClock laps_;
    Nanoseconds first_ = 0; ///< of the whole replay
    std::uint64_t taken_ = 0;
};

} // namespace reprise::controller
