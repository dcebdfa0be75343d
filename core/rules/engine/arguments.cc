#include "core/rules/engine/arguments.hh"

#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {
namespace {

/// 65535, not 6.5535e+04.
std::string plain(double value) { return fmt::format("{:.12g}", value); }

} // namespace

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

std::optional<double> Arguments::get_number(std::string_view key, double low, double high) {
    const auto text = get_text(key);
    if (!text) {
        return std::nullopt;
    }
    const auto value = parse_number<double>(*text);
    if (!value || !std::isfinite(*value) || *value < low || *value > high) {
        fail(key,
             fmt::format("\"{}\" is not a number from {} to {}", *text, plain(low), plain(high)));
    }
    return value;
}

std::optional<std::uint64_t> Arguments::get_integer(std::string_view key, std::uint64_t low,
                                                    std::uint64_t high) {
    const auto text = get_text(key);
    if (!text) {
        return std::nullopt;
    }
    const auto value = parse_number<std::uint64_t>(*text);
    if (!value || *value < low || *value > high) {
        fail(key, fmt::format("\"{}\" is not a whole number from {} to {}", *text, low, high));
    }
    return value;
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

} // namespace reprise::rules
