#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// The word of `words` that `word` was most likely meant to be (Levenshtein distance at most 2 or a
/// third of its length, letter case ignored); empty where none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& words);

/// "; did you mean WORD?", or "; known: A, B, C" where none is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& words);

} // namespace reprise
