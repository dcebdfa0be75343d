#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// Letters inserted, left out, changed, or swapped with their neighbor between the two, whatever
/// their case. Words of over 64 letters are far from all others.
size_t edit_distance(std::string_view a, std::string_view b);

/// How many edits a word may be away from what was meant.
size_t most_edits(std::string_view word);

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
