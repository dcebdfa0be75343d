#include "mutator/synth/query_names.hh"

#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr std::array<std::string_view, 40> kSyllables{
    "ba", "be", "bo", "ca", "co", "da", "de", "di", "do",   "fa",   "fi",  "ga",  "go", "ha",
    "ka", "ki", "la", "le", "li", "lo", "ma", "me", "mi",   "mo",   "na",  "ne",  "no", "pa",
    "ra", "re", "ri", "ro", "sa", "so", "ta", "te", "tech", "shop", "net", "soft"};

constexpr std::array<std::string_view, 10> kHosts{"www", "mail", "ns1", "ns2",  "api",
                                                  "cdn", "smtp", "img", "time", "static"};

constexpr std::array<std::string_view, 8> kMachines{"wpad", "isatap",  "printer", "router",
                                                    "nas",  "desktop", "laptop",  "srv"};

constexpr std::array<std::string_view, 10> kLeaked{"local",     "home",     "lan",    "localdomain",
                                                   "corp",      "internal", "belkin", "dhcp",
                                                   "workgroup", "router"};

constexpr double kRootShare = 0.4;  ///< of NS, DNSKEY and SOA queries; the rest ask at a TLD
constexpr double kProbeShare = 0.5; ///< of junk

template <typename Table> std::string_view pick(const Table& table, Random& random) {
    return table[random.below(table.size())];
}

} // namespace

void add_reverse(Random& random, Name& out) {
    for (int i = 0; i < 4; ++i) {
        out.add_label(std::to_string(random.below(256)));
    }
    out.add_label("in-addr");
    out.add_label("arpa");
}

NameMaker::NameMaker(std::vector<std::string> tlds)
    : tlds_(std::move(tlds)), popularity_(zipf_weights(tlds_.size(), 1.0)),
      known_(tlds_.begin(), tlds_.end()) {
    std::ranges::copy_if(kLeaked, std::back_inserter(leaked_), [this](std::string_view name) {
        return !known_.contains(std::string(name));
    });
}

void NameMaker::add_tld(Random& random, Name& out) {
    out.add_label(tlds_[popularity_.draw(random)]);
}

void NameMaker::add_host(Random& random, Name& out) {
    if (random.chance(0.6)) {
        out.add_label(pick(kHosts, random));
    }
    scratch_.clear();
    for (std::uint64_t i = random.between(2, 4); i > 0; --i) {
        scratch_ += pick(kSyllables, random);
    }
    out.add_label(scratch_);
    add_tld(random, out);
}

void NameMaker::make(std::uint16_t type, Random& random, Name& out) {
    out.clear();
    switch (type) {
    case kTypeNs:
    case kTypeSoa:
    case kTypeDnskey:
        if (!random.chance(kRootShare)) {
            add_tld(random, out);
        }
        break;
    case kTypeDs:
        add_tld(random, out);
        break;
    case kTypePtr:
        add_reverse(random, out);
        break;
    case kTypeSrv:
        out.add_label("_ldap");
        out.add_label("_tcp");
        [[fallthrough]];
    default:
        add_host(random, out);
    }
}

void NameMaker::add_probe(Random& random, Name& out) {
    do {
        scratch_.resize(random.between(7, 15));
        for (char& c : scratch_) {
            c = static_cast<char>('a' + random.below(26));
        }
    } while (known_.contains(scratch_));
    out.add_label(scratch_);
}

void NameMaker::make_junk(std::uint16_t type, Random& random, Name& out) {
    out.clear();
    if (leaked_.empty() || random.chance(kProbeShare)) {
        add_probe(random, out);
        return;
    }
    if (type == kTypePtr) {
        out.add_label("lb");
        out.add_label("_dns-sd");
        out.add_label("_udp");
    } else if (random.chance(0.7)) {
        out.add_label(pick(kMachines, random));
    }
    out.add_label(pick(leaked_, random));
}

} // namespace reprise::mutator
