#pragma once
// Names that a root server is asked for. Makers leave the root label away.

#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "mutator/synth/synth_options.hh"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace reprise::mutator {

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

/// Names calibrated against a minute of a root server.
///
/// The figures are shares counted in 10,432 queries of a root server of 2016-10-06 (the public
/// capture nsd-live.raw.pcap of the dns-stats project; docs/synthetic.md puts both side by side):
/// of each query type how many ask for what does not exist, how many labels such names have, which
/// top-level domains leak, which existing ones are asked for.
class RootNames {
public:
    /// `tlds` exist; `types` are what make() will be asked for, with their weights. `junk_share` of
    /// all names are below top-level domains that do not exist: each type's own share is moved (its
    /// odds by one factor) until the sum is right.
    RootNames(std::vector<std::string> tlds, const Mix& types, double junk_share);

    /// Draws a name for the type; returns whether it is junk.
    bool make(std::uint16_t type, Random& random, Name& out);

private:
    [[nodiscard]] bool exists(std::string_view tld) const;
    void make_service(std::uint16_t type, Random& random, Name& out);
    void make_leaked(std::uint64_t labels, Random& random, Name& out);
    void make_junk(std::uint16_t type, Random& random, Name& out);
    void make_existing(std::uint16_t type, Random& random, Name& out);
    void add_zone(Random& random, Name& out);
    void add_host(Random& random, Name& out);
    void add_machine(Random& random, Name& out);
    void add_leaked_tld(Random& random, Name& out);
    void add_tld(Random& random, Name& out);
    void add_random(Random& random, std::uint64_t low, std::uint64_t high, std::string_view from,
                    Name& out);
    void add_syllables(Random& random, std::uint64_t low, std::uint64_t high, Name& out);

    std::vector<std::string> tlds_;
    std::unordered_set<std::string> known_;
    std::vector<std::string_view> popular_; ///< of the table, those that exist
    std::vector<std::string_view> leaked_;  ///< of the table, those that do not exist
    WeightedChoice popular_choice_;
    WeightedChoice leaked_choice_;
    WeightedChoice tail_choice_; ///< all that exist, by rank
    WeightedChoice junk_labels_;
    WeightedChoice host_labels_;
    double odds_ = 1; ///< factor of each type's odds of junk
    std::string scratch_;
};

} // namespace reprise::mutator
