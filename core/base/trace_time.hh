#pragma once
// Times as people write them in options and rules.

#include "core/base/clock.hh"

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

} // namespace reprise
