#pragma once
#include <string>

namespace reprise::controller {

/// The certificates of a PEM file, as PEM without anything else (bundles have comments in any
/// encoding); empty for an empty path. Throws UsageError with the hint where there are none, or the
/// file is too large for a message of the tree.
std::string read_authorities(const std::string& path);

} // namespace reprise::controller
