#include "core/base/nearest.hh"

#include "core/base/ascii.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise {
namespace {

/// Longer words are not corrected: the cost is the product of both lengths.
constexpr size_t kLongest = 64;

// Wagner and Fischer with one row: row[j] is the distance of a's first i letters to b's first j.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < a.size(); ++i) {
        size_t diagonal = std::exchange(row[0], i + 1);
        for (size_t j = 0; j < b.size(); ++j) {
            const size_t replaced = diagonal + (Lower{}(a[i]) == Lower{}(b[j]) ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
        }
    }
    return row.back();
}

} // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string>& words) {
    if (word.empty() || word.size() > kLongest) {
        return {};
    }
    // A word that shares no letter with the other is no correction of it.
    size_t best = std::min(std::max<size_t>(2, word.size() / 3), word.size() - 1) + 1;
    std::string found;
    for (const std::string& candidate : words) {
        const size_t far = distance(word, candidate);
        if (far < best && far < candidate.size()) {
            best = far;
            found = candidate;
        }
    }
    return found;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& words) {
    const std::string near = nearest_word(word, words);
    return near.empty() ? fmt::format("; known: {}", fmt::join(words, ", "))
                        : fmt::format("; did you mean {}?", near);
}

} // namespace reprise
