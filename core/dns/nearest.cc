#include "core/dns/nearest.hh"

#include "core/base/ascii.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace reprise::trace {
namespace {

constexpr size_t kLongest = 31; // of a word that is looked at

/// Letters inserted, left out, changed, or swapped with their neighbour between the two.
size_t distance(std::string_view a, std::string_view b) {
    const auto same = [&](size_t i, size_t j) { return Lower{}(a[i]) == Lower{}(b[j]); };
    std::array<std::array<size_t, kLongest + 1>, kLongest + 1>
        edits{}; // between first i and j letters
    for (size_t i = 0; i <= a.size(); ++i) {
        for (size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                edits.at(i).at(j) = i + j;
                continue;
            }
            const size_t change = edits.at(i - 1).at(j - 1) + (same(i - 1, j - 1) ? 0U : 1U);
            size_t least = std::min({change, edits.at(i - 1).at(j) + 1, edits.at(i).at(j - 1) + 1});
            if (i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1)) {
                least = std::min(least, edits.at(i - 2).at(j - 2) + 1);
            }
            edits.at(i).at(j) = least;
        }
    }
    return edits.at(a.size()).at(b.size());
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
