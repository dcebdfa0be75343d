#pragma once
// Trace times with offsets; none falls below 0 or above what 64 bits hold.

#include "core/clock.hh"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reprise::mutator {

inline constexpr Nanoseconds kLastTime = std::numeric_limits<Nanoseconds>::max();

/// `base` (not negative) and `offset`, exactly.
inline Nanoseconds added(Nanoseconds base, Nanoseconds offset) {
    return offset > kLastTime - base ? kLastTime : std::max<Nanoseconds>(base + offset, 0);
}

/// The same with the offset rounded to a nanosecond; doubles are exact to one for 104 days.
inline Nanoseconds added(Nanoseconds base, double offset) {
    constexpr double kMost = 0x1p62;
    return added(base, static_cast<Nanoseconds>(std::llround(std::clamp(offset, -kMost, kMost))));
}

} // namespace reprise::mutator
