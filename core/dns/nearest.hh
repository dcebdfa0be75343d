#pragma once
#include <cstddef>
#include <span>
#include <string_view>

namespace reprise::trace {

/// The one of `words` that `word` was most likely meant to be, whatever their case: at most two
/// edits away and less than half of it. Empty where none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> words);

} // namespace reprise::trace
