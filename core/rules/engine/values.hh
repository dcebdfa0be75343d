#pragma once
// Values of rules' keys that several rules share: prefixes, names, types, mixes, times. Each reader
// throws RuleError by Arguments::fail, naming the key and the nearest word.

#include "core/base/prefix.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/arguments.hh"
#include "core/wire/query.hh"

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

} // namespace reprise::rules
