#pragma once
#include "core/base/clock.hh"

#include <optional>
#include <string_view>

namespace reprise::controller {

/// A place in a trace: seconds from its first query, or an absolute time.
struct TraceTime {
    bool absolute = false;
    Nanoseconds value = 0; ///< since the epoch, or since the first query

    [[nodiscard]] Nanoseconds in_trace(Nanoseconds first) const {
        return absolute ? value : first + value;
    }

    /// Parses "12.5" (seconds from the first query), "1475762151.394" (from 100,000,000 on seconds
    /// since the epoch) or RFC 3339, "2016-10-06T13:55:51.394Z", "...+02:00".
    static std::optional<TraceTime> parse(std::string_view text);

    /// The same of an option, where empty is none.
    static std::optional<TraceTime> of(std::string_view text) {
        return text.empty() ? std::nullopt : parse(text);
    }
};

/// The stretch of the trace that is replayed: from `from` up to, not including, `until`.
class Span {
public:
    Span(std::optional<TraceTime> from, std::optional<TraceTime> until)
        : from_(from), until_(until) {}

    /// The time of the trace's first query, by which relative moments count.
    void set_first(Nanoseconds first) { first_ = first; }

    [[nodiscard]] bool before(Nanoseconds time) const {
        return from_ && time < from_->in_trace(first_);
    }

    [[nodiscard]] bool after(Nanoseconds time) const {
        return until_ && time >= until_->in_trace(first_);
    }

private:
    std::optional<TraceTime> from_;
    std::optional<TraceTime> until_;
    Nanoseconds first_ = 0;
};

} // namespace reprise::controller
