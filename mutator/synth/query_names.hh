#pragma once
// Names that a root server is asked for.

#include "core/base/random.hh"
#include "core/dns/name.hh"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace reprise::mutator {

// Makers leave the root label away.

/// A name below in-addr.arpa.
void add_reverse(Random& random, Name& out);

/// Draws query names: below existing top-level domains (weighted by rank) or below ones that do not
/// exist.
class NameMaker {
public:
    explicit NameMaker(std::vector<std::string> tlds);

    /// A name fit for the type: the root or a TLD for NS, DS, DNSKEY and SOA, in-addr.arpa for PTR,
    /// else a host's.
    void make(std::uint16_t type, Random& random, Name& out);

    /// A name whose TLD does not exist: a random label as Chromium's probes (7 to 15 letters), or a
    /// leaked local name.
    void make_junk(std::uint16_t type, Random& random, Name& out);

private:
    void add_tld(Random& random, Name& out);
    void add_host(Random& random, Name& out);
    void add_probe(Random& random, Name& out);

    std::vector<std::string> tlds_;
    WeightedChoice popularity_;
    std::unordered_set<std::string> known_;
    std::vector<std::string_view> leaked_; ///< local TLDs that are not delegated
    std::string scratch_;
};

} // namespace reprise::mutator
