#pragma once
// Names that clients ask for: those that a root server is asked, and lists of names.

#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "mutator/synth/synth_options.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {

/// Draws a name fit for the type, without its root label; returns whether it is junk.
using MakeName =
    std::function<bool(std::uint32_t client, std::uint16_t type, Random& random, Name& out)>;

/// Of few kinds: below `tlds` (weighted by rank), or, `junk_share` of all, below top-level domains
/// that do not exist.
MakeName simple_names(std::vector<std::string> tlds, double junk_share);

/// Names calibrated against a minute of a root server.
///
/// The figures are shares counted in 10,432 queries of a root server of 2016-10-06 (the public
/// capture nsd-live.raw.pcap of the dns-stats project; docs/synthetic.md puts both side by side):
/// of each query type how many ask for what does not exist, how many labels such names have, which
/// top-level domains leak, which existing ones are asked for.
///
/// `tlds` exist; `types` are what is asked for, with their weights. `junk_share` of all names are
/// below top-level domains that do not exist: each type's own share is moved (its odds by one
/// factor) until the sum is right.
MakeName root_names(std::vector<std::string> tlds, const Mix& types, double junk_share);

// Lists of names for synthesis, like the popular domains that measurement projects publish.

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
