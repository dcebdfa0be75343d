#pragma once
// Trace times with offsets; none falls below 0 or beyond what a trace may have.

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace reprise::rules {

inline constexpr Nanoseconds kLastTime = kEndOfTraceTime;

/// `base` (of a trace) and `offset`, exactly.
inline Nanoseconds added(Nanoseconds base, Nanoseconds offset) {
    Nanoseconds sum = 0;
    if (__builtin_add_overflow(base, offset, &sum)) {
        return offset > 0 ? kLastTime : 0;
    }
    return std::clamp<Nanoseconds>(sum, 0, kLastTime);
}

/// The same with the offset rounded to a nanosecond; doubles are exact to one for 104 days. One of
/// 146 years leaves the range.
inline Nanoseconds added(Nanoseconds base, double offset) {
    constexpr double kMost = 0x1p62;
    return offset < kMost
               ? added(base, static_cast<Nanoseconds>(std::llround(std::max(offset, -kMost))))
               : kLastTime;
}

/// The time, unless it left the range: queries that gather at its end have lost their spacing.
/// `hint` says what to change.
inline Nanoseconds in_range(Nanoseconds time, std::string_view rule, std::string_view hint) {
    if (time < 0 || time == kLastTime) {
        throw Error(fmt::format("rule {}: would move a query {}; {}", rule,
                                time < 0 ? "before 1970" : "behind the year 2149", hint));
    }
    return time;
}

} // namespace reprise::rules
