#pragma once
// Top-level domains from the public suffix list (or any list of names, one a line).

#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace reprise::mutator {

/// A label in lower case with "xn--" where it is not ASCII (IDNA 2008). Nothing where it is not
/// UTF-8, empty, or longer than 63 bytes as encoded.
std::optional<std::string> to_a_label(const std::string& label);

/// Distinct last labels of the list's rules as A-labels, the most queried first: a built-in order
/// of well-known domains, then the file's order. Only the ICANN section counts where the file has
/// one. Lines that are no names are left out.
std::vector<std::string> read_tlds(std::istream& in);

/// The same from a file. Throws UsageError where it cannot be read or names no domain.
std::vector<std::string> load_tlds(const std::string& path);

} // namespace reprise::mutator
