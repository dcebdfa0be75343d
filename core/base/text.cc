#include "core/base/text.hh"

#include "core/base/bytes.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
namespace {

constexpr size_t kLongest = 64; ///< the cost is the product of both lengths

/// Of a hexadecimal digit; 16 for what is none.
unsigned hex_value(char c) {
    const char digit = Lower{}(c);
    return static_cast<unsigned>(digit >= '0' && digit <= '9'   ? digit - '0'
                                 : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                                                : 16);
}

} // namespace

bool parse_hex(std::string_view text, std::vector<std::uint8_t>& out) {
    if (text.size() % 2 != 0) {
        return false;
    }
    const size_t start = out.size();
    out.resize(start + text.size() / 2);
    unsigned all = 0;
    for (size_t i = 0; i < text.size() / 2; ++i) {
        const unsigned high = hex_value(text[2 * i]);
        const unsigned low = hex_value(text[2 * i + 1]);
        all |= high | low;
        out[start + i] = static_cast<std::uint8_t>((high << 4U) | low);
    }
    return all < 16;
}

void append_hex(std::string& out, Bytes bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const size_t start = out.size();
    out.resize(start + 2 * bytes.size());
    char* at = out.data() + start;
    for (const std::uint8_t byte : bytes) {
        *at++ = kDigits[byte >> 4U];
        *at++ = kDigits[byte & 0xfU];
    }
}

// Wagner and Fischer, with swapped letters: row[j] is the distance of a's first i letters to b's
// first j. The two rows before are all that is needed.
size_t edit_distance(std::string_view a, std::string_view b) {
    if (std::max(a.size(), b.size()) > kLongest) {
        return kLongest;
    }
    const auto same = [&](size_t i, size_t j) { return Lower{}(a[i - 1]) == Lower{}(b[j - 1]); };
    std::array<size_t, kLongest + 1> row{};
    std::array<size_t, kLongest + 1> last{};
    std::array<size_t, kLongest + 1> before{};
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        before = last;
        last = row;
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t changed = last[j - 1] + (same(i, j) ? 0 : 1);
            row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j)) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
    }
    return row[b.size()];
}

// Less than half of a short word, a third of a long one.
size_t most_edits(std::string_view word) {
    const size_t half = word.empty() ? 0 : (word.size() - 1) / 2;
    return word.size() > kLongest ? 0 : std::max(std::min<size_t>(2, half), word.size() / 3);
}

std::string suggestion(std::string_view word, const std::vector<std::string>& words) {
    const std::string_view near = nearest_word(word, words);
    return near.empty() ? fmt::format("; known: {}", joined(words, ", "))
                        : fmt::format("; did you mean {}?", near);
}

} // namespace reprise
