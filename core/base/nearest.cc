#include "core/base/nearest.hh"

#include "core/base/ascii.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
namespace {

constexpr size_t kLongest = 64; ///< the cost is the product of both lengths

} // namespace

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
    return near.empty() ? fmt::format("; known: {}", fmt::join(words, ", "))
                        : fmt::format("; did you mean {}?", near);
}

} // namespace reprise
