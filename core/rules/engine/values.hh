#pragma once
// Values of rules' keys that several rules share: prefixes, names, types, mixes, times. Each reader
// throws RuleError by Arguments::fail, naming the key and the nearest word.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/arguments.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules {

/// A value that is drawn with probability weight / sum of weights.
struct Weighted {
    std::string value;
    double weight = 1;
};

/// "A:50,AAAA:50", one value, or several without weights (then all alike). Empty where the key is
/// not there.
std::vector<Weighted> get_mix(Arguments& arguments, std::string_view key);

/// Values as names; in lower case for ends_in() where `lower`.
std::vector<Name> get_names(Arguments& arguments, std::string_view key, bool lower = false);

std::vector<Prefix> get_prefixes(Arguments& arguments, std::string_view key);

/// A mnemonic or TYPEnn.
std::uint16_t type_value(const Arguments& arguments, std::string_view key, const std::string& text);

/// A mnemonic or a number from 0 to 15.
std::uint8_t opcode_value(const Arguments& arguments, std::string_view key,
                          const std::string& text);

/// A transport by its name in Transport's text form.
Transport transport_value(const Arguments& arguments, std::string_view key,
                          const std::string& text);

/// A header flag, as its bit in the flags word.
std::uint16_t flag_value(const Arguments& arguments, std::string_view key, const std::string& text);

// Trace times with offsets; none falls below 0 or beyond what a trace may have.

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
