#pragma once
// Lists of names for synthesis, like the popular domains that measurement projects publish.

#include "core/base/bytes.hh"

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {

/// Names in wire form without the root label, in the list's order. Memory: the names and 4 bytes
/// each.
class NameList {
public:
    /// Adds a name in presentation form, with or without its final dot; commas and quotation marks
    /// are escaped in it. False where it is no name that fits RFC 1035's limits.
    bool add(std::string_view text);

    [[nodiscard]] size_t size() const { return ends_.size(); }

    [[nodiscard]] std::string_view wire(size_t number) const;

private:
    std::string bytes_;
    std::vector<std::uint32_t> ends_;
};

/// The same from a line of a list: a name, or RANK,NAME; an empty one, or one that begins with #,
/// adds nothing.
bool add_line(std::string_view line, NameList& names);

/// Reads a list from a file, plain or compressed (gz, bz2, xz, zst, lz4), of at most 1 GiB. Lines
/// that hold no name are counted in the log. Throws UsageError where the file cannot be read or
/// holds no name.
NameList load_names(const std::string& path);

// Top-level domains from the public suffix list (or any list of names, one a line).

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
