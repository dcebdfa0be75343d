#pragma once
#include "core/base/clock.hh"
#include "core/base/trace_time.hh"

#include <optional>

namespace reprise::controller {

/// The stretch of the trace that is replayed: from `from` up to, not including, `until`.
class Span {
public:
    Span(std::optional<TraceTime> from, std::optional<TraceTime> until)
        : from_(from), until_(until) {}

    /// The time of the trace's first query, by which relative times count.
    void set_first(Nanoseconds first) { first_ = first; }

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
