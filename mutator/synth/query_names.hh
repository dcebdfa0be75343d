#pragma once
// Names that a root server is asked for.

#include "core/base/random.hh"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace reprise::mutator {

/// A DNS name under construction, in wire form without the root label. Labels and sum must fit RFC
/// 1035's limits.
class QueryName {
public:
    void clear() { size_ = 0; }

    void add(std::string_view label);

    /// A whole name, in wire form without the root label, at most 254 bytes.
    void assign(std::string_view labels);

    [[nodiscard]] std::string_view bytes() const { return {bytes_.data(), size_}; }

private:
    std::array<char, 254> bytes_{};
    size_t size_ = 0;
};

/// A name below in-addr.arpa.
void add_reverse(Random& random, QueryName& out);

/// Draws query names: below existing top-level domains (weighted by rank) or below ones that do not
/// exist.
class NameMaker {
public:
    explicit NameMaker(std::vector<std::string> tlds);

    /// A name fit for the type: the root or a TLD for NS, DS, DNSKEY and SOA, in-addr.arpa for PTR,
    /// else a host's.
    void make(std::uint16_t type, Random& random, QueryName& out);

    /// A name whose TLD does not exist: a random label as Chromium's probes (7 to 15 letters), or a
    /// leaked local name.
    void make_junk(std::uint16_t type, Random& random, QueryName& out);

private:
    void add_tld(Random& random, QueryName& out);
    void add_host(Random& random, QueryName& out);
    void add_probe(Random& random, QueryName& out);

    std::vector<std::string> tlds_;
    WeightedChoice popularity_;
    std::unordered_set<std::string> known_;
    std::vector<std::string_view> leaked_; ///< local TLDs that are not delegated
    std::string scratch_;
};

} // namespace reprise::mutator
