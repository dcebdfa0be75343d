#include "core/rules/engine/values.hh"

#include "core/base/address.hh"
#include "core/base/text.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "core/rules/engine/arguments.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules {
namespace {

// "udp:90"; the last colon, as values may hold some.
Weighted weighted(const Arguments& arguments, std::string_view key, const std::string& text) {
    const size_t colon = text.rfind(':');
    const auto weight = colon == std::string::npos
                            ? std::nullopt
                            : parse_number<double>(std::string_view(text).substr(colon + 1));
    if (!weight || !std::isfinite(*weight) || *weight < 0) {
        arguments.fail(key, fmt::format("\"{}\" has no weight; write VALUE:WEIGHT for each", text));
    }
    return {.value = text.substr(0, colon), .weight = *weight};
}

std::string near(std::string_view word) {
    return word.empty() ? "" : fmt::format("; did you mean {}?", word);
}

} // namespace

std::vector<Weighted> get_mix(Arguments& arguments, std::string_view key) {
    const auto values = arguments.get_list(key);
    const auto has_weight = [](const std::string& v) { return v.find(':') != std::string::npos; };
    std::vector<Weighted> mix;
    double sum = 0;
    const bool plain = std::ranges::none_of(values, has_weight);
    for (const std::string& value : values) {
        mix.push_back(plain ? Weighted{.value = value, .weight = 1}
                            : weighted(arguments, key, value));
        sum += mix.back().weight;
    }
    if (!mix.empty() && sum <= 0) {
        arguments.fail(key, "all weights are 0; give one that is not");
    }
    if (!std::isfinite(sum)) {
        arguments.fail(key, "the weights' sum is too large; give smaller ones, like 50 and 50");
    }
    return mix;
}

std::vector<Name> get_names(Arguments& arguments, std::string_view key, bool lower_case) {
    std::vector<Name> names;
    for (const std::string& text : arguments.get_list(key)) {
        auto name = parse_name(text);
        if (!name) {
            arguments.fail(
                key, fmt::format("\"{}\" is not a domain name; write it as example.com.", text));
        }
        if (lower_case) {
            name->lower();
        }
        names.push_back(*name);
    }
    return names;
}

std::vector<Prefix> get_prefixes(Arguments& arguments, std::string_view key) {
    std::vector<Prefix> prefixes;
    for (const std::string& text : arguments.get_list(key)) {
        const auto prefix = Prefix::parse_network(text);
        if (!prefix) {
            arguments.fail(key, fmt::format("\"{}\" is not a prefix; write it as 192.0.2.0/24 or "
                                            "2001:db8::/32, with zeros behind the prefix",
                                            text));
        }
        prefixes.push_back(*prefix);
    }
    return prefixes;
}

std::uint16_t type_value(const Arguments& arguments, std::string_view key,
                         const std::string& text) {
    const auto type = type_number(text);
    if (!type) {
        arguments.fail(key, fmt::format("\"{}\" is not a query type{}", text,
                                        near(type_words().nearest(text))));
    }
    return *type;
}

std::uint8_t opcode_value(const Arguments& arguments, std::string_view key,
                          const std::string& text) {
    const auto digits = text.starts_with("OPCODE") ? text.substr(6) : text;
    const auto opcode = opcode_words().number(digits);
    if (!opcode) {
        arguments.fail(key, fmt::format("\"{}\" is not an opcode{}", text,
                                        near(opcode_words().nearest(text))));
    }
    return static_cast<std::uint8_t>(*opcode);
}

std::uint16_t flag_value(const Arguments& arguments, std::string_view key,
                         const std::string& text) {
    std::vector<std::string> names;
    for (const FlagName& flag : kFlagNames) {
        if (flag.name == text) {
            return flag.bit;
        }
        names.emplace_back(flag.name);
    }
    arguments.fail(key, fmt::format("\"{}\" is not a flag{}", text, suggestion(text, names)));
}

Transport transport_value(const Arguments& arguments, std::string_view key,
                          const std::string& text) {
    std::vector<std::string> names;
    for (const Transport transport : kTransports) {
        if (transport_name(transport) == text) {
            return transport;
        }
        names.emplace_back(transport_name(transport));
    }
    arguments.fail(key, fmt::format("\"{}\" is not a transport{}", text, suggestion(text, names)));
}

} // namespace reprise::rules
