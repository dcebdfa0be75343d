#pragma once
// U-labels to A-labels: Punycode (RFC 3492) with the "xn--" prefix of IDNA.

#include <optional>
#include <string>
#include <string_view>

namespace reprise::mutator {

/// A label in lower case with "xn--" where it is not ASCII. The label must already be normalised
/// (NFC, lower case), as the public suffix list is. Nothing where it is not UTF-8, empty, or longer
/// than 63 bytes as encoded.
std::optional<std::string> to_a_label(std::string_view label);

} // namespace reprise::mutator
