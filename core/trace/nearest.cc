#include "core/trace/nearest.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace reprise::trace {
namespace {

constexpr size_t kLongest = 31; // of a word that is looked at

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

/// Letters inserted, left out or changed between the two (Levenshtein).
size_t distance(std::string_view a, std::string_view b) {
    std::array<size_t, kLongest + 1> row{};
    for (size_t j = 0; j <= b.size(); ++j) {
        row.at(j) = j;
    }
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t change = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0U : 1U);
            diagonal = row.at(j);
            row.at(j) = std::min({change, row.at(j) + 1, row.at(j - 1) + 1});
        }
    }
    return row.at(b.size());
}

} // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> words) {
    std::string_view best;
    size_t least = std::min<size_t>(3, (word.size() + 1) / 2);
    for (const std::string_view candidate : words) {
        if (word.size() > kLongest || candidate.size() > kLongest) {
            continue;
        }
        const size_t edits = distance(word, candidate);
        if (edits < least) {
            least = edits;
            best = candidate;
        }
    }
    return best;
}

} // namespace reprise::trace
