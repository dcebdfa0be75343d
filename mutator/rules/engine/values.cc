#include "mutator/rules/engine/values.hh"

#include "core/base/ascii.hh"
#include "core/base/bytes.hh"
#include "core/base/nearest.hh"
#include "core/base/numbers.hh"
#include "core/base/prefix.hh"
#include "core/dns/words.hh"
#include "core/wire/query.hh"
#include "mutator/rules/engine/arguments.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr size_t kLongestLabel = 63;
constexpr size_t kLongestName = 255;

constexpr std::array kTransports{Transport::kUdp,  Transport::kTcp,   Transport::kTls,
                                 Transport::kQuic, Transport::kHttps, Transport::kStatelessTcp};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The character at `at`, with its escape; moves `at` behind it. Nothing where the escape is cut.
std::optional<std::uint8_t> unescape(std::string_view text, size_t& at) {
    const char first = text[at++];
    if (first != '\\') {
        return static_cast<std::uint8_t>(first);
    }
    if (at == text.size()) {
        return std::nullopt;
    }
    if (!is_digit(text[at])) {
        return static_cast<std::uint8_t>(text[at++]);
    }
    const auto value =
        at + 3 <= text.size() ? parse_number<std::uint8_t>(text.substr(at, 3)) : std::nullopt;
    at += 3;
    return value;
}

/// Ends the label that begins at `start`; false where it is empty or too long.
bool end_label(WireBytes& name, size_t start) {
    const size_t size = name.size() - start - 1;
    name[start] = static_cast<std::uint8_t>(size);
    return size != 0 && size <= kLongestLabel;
}

bool append_labels(std::string_view text, WireBytes& name) {
    size_t start = 0;
    name.push_back(0);
    for (size_t at = 0; at < text.size();) {
        if (text[at] == '.') {
            if (!end_label(name, start)) {
                return false;
            }
            start = name.size();
            name.push_back(0);
            ++at;
            continue;
        }
        const auto byte = unescape(text, at);
        if (!byte) {
            return false;
        }
        name.push_back(*byte);
    }
    // Behind a final dot the last label is the root's.
    return start == name.size() - 1 || (end_label(name, start) && (name.push_back(0), true));
}

// "udp:90"; the last colon, as values may hold some.
Weighted weighted(const Arguments& arguments, std::string_view key, const std::string& text) {
    const size_t colon = text.rfind(':');
    const auto weight = parse_number<double>(std::string_view(text).substr(colon + 1));
    if (!weight || !std::isfinite(*weight) || *weight < 0) {
        arguments.fail(key, fmt::format("\"{}\" has no weight; write VALUE:WEIGHT for each", text));
    }
    return {.value = text.substr(0, colon), .weight = *weight};
}

std::string near(std::string_view word) {
    return word.empty() ? "" : fmt::format("; did you mean {}?", word);
}

} // namespace

std::optional<WireBytes> parse_name(std::string_view text) {
    WireBytes name;
    if (text == ".") {
        name.push_back(0);
        return name;
    }
    const bool good = !text.empty() && append_labels(text, name) && name.size() <= kLongestName;
    return good ? std::optional(std::move(name)) : std::nullopt;
}

bool ends_in(Bytes name, Bytes suffix) {
    size_t at = 0;
    while (name.size() - at > suffix.size()) {
        at += size_t{1} + name[at];
        if (at > name.size()) {
            return false;
        }
    }
    return name.size() - at == suffix.size() &&
           std::ranges::equal(name.subspan(at), suffix, {}, Lower{});
}

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

void one_of(const Arguments& arguments, std::string_view key, const std::string& word,
            const std::vector<std::string>& words) {
    if (std::ranges::find(words, word) == words.end()) {
        arguments.fail(key, fmt::format("\"{}\" is not known{}", word, suggestion(word, words)));
    }
}

std::vector<WireBytes> get_names(Arguments& arguments, std::string_view key, bool lower_case) {
    std::vector<WireBytes> names;
    for (const std::string& text : arguments.get_list(key)) {
        auto name = parse_name(text);
        if (!name) {
            arguments.fail(
                key, fmt::format("\"{}\" is not a domain name; write it as example.com.", text));
        }
        if (lower_case) {
            std::ranges::transform(*name, name->begin(), Lower{});
        }
        names.push_back(std::move(*name));
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

} // namespace reprise::mutator
