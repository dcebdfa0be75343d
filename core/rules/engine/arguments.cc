#include "core/rules/engine/arguments.hh"

#include "core/base/text.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {
Arguments::Arguments(std::string kind, std::string place, std::vector<Argument> list)
    : kind_(std::move(kind)), place_(std::move(place)), list_(std::move(list)) {
    for (auto it = list_.begin(); it != list_.end(); ++it) {
        const auto twin =
            std::find_if(list_.begin(), it, [&](const auto& a) { return a.key == it->key; });
        if (twin != it) {
            fail(it->key, "is there twice; give it once, with all its values");
        }
    }
}

const Argument* Arguments::find(std::string_view key) const {
    const auto found = std::ranges::find(list_, key, &Argument::key);
    return found != list_.end() ? &*found : nullptr;
}

bool Arguments::has(std::string_view key) const { return find(key) != nullptr; }

bool Arguments::takes_all() const {
    return std::ranges::all_of(list_, [](const Argument& argument) {
        const bool whole = argument.key == "share" && argument.values.size() == 1 &&
                           parse_number<double>(argument.values.front()) == 100.0;
        return whole || (argument.key != "share" && !argument.key.starts_with("where"));
    });
}

std::vector<std::string> Arguments::get_list(std::string_view key) {
    known_.emplace_back(key);
    const Argument* argument = find(key);
    return argument != nullptr ? argument->values : std::vector<std::string>{};
}

std::optional<std::string> Arguments::get_text(std::string_view key) {
    auto values = get_list(key);
    if (values.size() > 1) {
        fail(key, fmt::format("takes one value, not {}", values.size()));
    }
    return values.empty() ? std::nullopt : std::optional(std::move(values.front()));
}

std::optional<std::string> Arguments::get_word(std::string_view key,
                                               const std::vector<std::string>& words) {
    auto text = get_text(key);
    if (text) {
        demand_word(key, *text, words);
    }
    return text;
}

void Arguments::demand_word(std::string_view key, const std::string& word,
                            const std::vector<std::string>& words) const {
    if (std::ranges::find(words, word) == words.end()) {
        fail(key, fmt::format("\"{}\" is not known{}", word, suggestion(word, words)));
    }
}

std::optional<bool> Arguments::get_switch(std::string_view key) {
    const auto text = get_text(key);
    if (!text) {
        return std::nullopt;
    }
    const bool on = *text == "on" || *text == "true";
    if (!on && *text != "off" && *text != "false") {
        fail(key, fmt::format("\"{}\" is neither on nor off", *text));
    }
    return on;
}

template <typename T>
std::optional<T> Arguments::get_between(std::string_view key, T low, T high,
                                        std::string_view what) {
    const auto text = get_text(key);
    if (!text) {
        return std::nullopt;
    }
    const auto value = parse_number<T>(*text);
    if (!value || !(*value >= low && *value <= high)) { // nor NaN
        fail(key, fmt::format("\"{}\" is not a {} from {} to {}", *text, what, low, high));
    }
    return value;
}

std::optional<double> Arguments::get_number(std::string_view key, double low, double high) {
    return get_between(key, low, high, "number");
}

std::optional<std::uint64_t> Arguments::get_integer(std::string_view key, std::uint64_t low,
                                                    std::uint64_t high) {
    return get_between(key, low, high, "whole number");
}

void Arguments::finish() const {
    for (const Argument& argument : list_) {
        if (std::ranges::find(known_, argument.key) == known_.end()) {
            fail(argument.key, "is not known" + suggestion(argument.key, similar(argument.key)));
        }
    }
}

/// The known keys, once each; without those of the filter where the key and its nearest are none.
std::vector<std::string> Arguments::similar(const std::string& key) const {
    const bool filter = key.starts_with("where") || nearest_word(key, known_).starts_with("where");
    std::vector<std::string> keys;
    for (const std::string& known : known_) {
        const bool fits = filter || !known.starts_with("where");
        if (fits && std::ranges::find(keys, known) == keys.end()) {
            keys.push_back(known);
        }
    }
    return keys;
}

void Arguments::fail(std::string_view key, const std::string& what) const {
    const Argument* argument = find(key);
    const std::string& place = argument != nullptr ? argument->place : place_;
    const std::string rule = place.starts_with("--") ? "" : fmt::format(": rule {}", kind_);
    const std::string part = key.empty() ? "" : fmt::format(", key {}", key);
    throw RuleError(fmt::format("{}{}{}: {}", place, rule, part, what));
}

void Arguments::fail_lacking(const std::string& what) const {
    finish();
    fail("", what);
}

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

/// The one of `all` whose name is the text.
template <typename All>
auto named(const Arguments& arguments, std::string_view key, const std::string& text,
           const All& all, auto name, std::string_view what) {
    std::vector<std::string> names;
    for (const auto& one : all) {
        names.emplace_back(std::invoke(name, one));
        if (names.back() == text) {
            return one;
        }
    }
    arguments.fail(key, fmt::format("\"{}\" is not a {}{}", text, what, suggestion(text, names)));
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

Name name_value(const Arguments& arguments, std::string_view key, const std::string& text) {
    const auto name = parse_name(text);
    if (!name) {
        arguments.fail(key, fmt::format("\"{}\" is not a domain name; write it as example.com., "
                                        "labels of 1 to 63 bytes, 255 in all",
                                        text));
    }
    return *name;
}

std::vector<Name> get_names(Arguments& arguments, std::string_view key, bool lower_case) {
    std::vector<Name> names;
    for (const std::string& text : arguments.get_list(key)) {
        names.push_back(name_value(arguments, key, text));
        if (lower_case) {
            names.back().lower();
        }
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
    return named(arguments, key, text, kFlagNames, &FlagName::name, "flag").bit;
}

Transport transport_value(const Arguments& arguments, std::string_view key,
                          const std::string& text) {
    return named(arguments, key, text, kTransports, transport_name, "transport");
}

} // namespace reprise::rules
