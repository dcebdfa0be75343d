#pragma once
// Letters, numbers and words as people write them in options, rules and text files.

#include "core/base/bytes.hh"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace reprise {

/// Upper case of ASCII to lower case; other bytes stay. Names, keywords and units compare without
/// regard to case (RFC 4343). A function object, so that it serves as a projection.
struct Lower {
    template <typename Byte> constexpr Byte operator()(Byte byte) const {
        return byte >= 'A' && byte <= 'Z' ? static_cast<Byte>(byte + ('a' - 'A')) : byte;
    }
};

/// Whether two words differ in case at most.
constexpr bool same_word(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, {}, Lower{}, Lower{});
}

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

/// Hexadecimal digits in any case, two a byte; none is good as well. Appends to `out`; false where
/// it is something else.
bool parse_hex(std::string_view text, std::vector<std::uint8_t>& out);

/// In lower case.
void append_hex(std::string& out, Bytes bytes);

/// Letters inserted, left out, changed, or swapped with their neighbor between the two, whatever
/// their case. Words of over 64 letters are far from all others.
size_t edit_distance(std::string_view a, std::string_view b);

/// How many edits a word may be away from what was meant.
size_t most_edits(std::string_view word);

/// All of them with `between` between them.
template <typename Words> std::string joined(const Words& words, std::string_view between) {
    std::string text;
    std::string_view before;
    for (const std::string_view word : words) {
        text.append(before).append(word);
        before = between;
    }
    return text;
}

/// The one of `words` that `word` was most likely meant to be; empty where none is near.
template <typename Words> std::string_view nearest_word(std::string_view word, const Words& words) {
    size_t least = most_edits(word) + 1;
    std::string_view found;
    for (const std::string_view candidate : words) {
        const size_t edits = edit_distance(word, candidate);
        if (edits < least) {
            least = edits;
            found = candidate;
        }
    }
    return found;
}

/// "; did you mean WORD?", or "; known: A, B, C" where none is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& words);

} // namespace reprise
