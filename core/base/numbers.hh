#pragma once
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace reprise {

/// Reads a text that is a number and nothing else; false, with `out` as it was, where it is none or
/// out of T's range. Neither blanks nor a plus sign are taken.
template <typename T> bool parse_number(std::string_view text, T& out) {
    const char* const first = text.data(); // NOLINT(bugprone-suspicious-stringview-data-usage)
    const auto [end, error] = std::from_chars(first, first + text.size(), out);
    return error == std::errc{} && end == first + text.size();
}

template <typename T> std::optional<T> parse_number(std::string_view text) {
    T value{};
    return parse_number(text, value) ? std::optional(value) : std::nullopt;
}

} // namespace reprise
