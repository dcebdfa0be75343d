#include "mutator/synth/query_names.hh"

#include "core/base/random.hh"
#include "core/dns/words.hh"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
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

void QueryName::add(std::string_view label) {
    bytes_.at(size_ + label.size()) = 0; // throws where the name would be too long
    bytes_[size_] = static_cast<char>(label.size());
    std::memcpy(bytes_.data() + size_ + 1, label.data(), label.size());
    size_ += label.size() + 1;
}

void QueryName::assign(std::string_view labels) {
    size_ = std::min(labels.size(), bytes_.size());
    std::memcpy(bytes_.data(), labels.data(), size_);
}

void add_reverse(Random& random, QueryName& out) {
    for (int i = 0; i < 4; ++i) {
        out.add(std::to_string(random.below(256)));
    }
    out.add("in-addr");
    out.add("arpa");
}

NameMaker::NameMaker(std::vector<std::string> tlds)
    : tlds_(std::move(tlds)), popularity_(zipf_weights(tlds_.size(), 1.0)),
      known_(tlds_.begin(), tlds_.end()) {
    std::ranges::copy_if(kLeaked, std::back_inserter(leaked_), [this](std::string_view name) {
        return !known_.contains(std::string(name));
    });
}

void NameMaker::add_tld(Random& random, QueryName& out) {
    out.add(tlds_[popularity_.draw(random)]);
}

void NameMaker::add_host(Random& random, QueryName& out) {
    if (random.chance(0.6)) {
        out.add(pick(kHosts, random));
    }
    scratch_.clear();
    for (std::uint64_t i = random.between(2, 4); i > 0; --i) {
        scratch_ += pick(kSyllables, random);
    }
    out.add(scratch_);
    add_tld(random, out);
}

void NameMaker::make(std::uint16_t type, Random& random, QueryName& out) {
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
        out.add("_ldap");
        out.add("_tcp");
        [[fallthrough]];
    default:
        add_host(random, out);
    }
}

void NameMaker::add_probe(Random& random, QueryName& out) {
    do {
        scratch_.resize(random.between(7, 15));
        for (char& c : scratch_) {
            c = static_cast<char>('a' + random.below(26));
        }
    } while (known_.contains(scratch_));
    out.add(scratch_);
}

void NameMaker::make_junk(std::uint16_t type, Random& random, QueryName& out) {
    out.clear();
    if (leaked_.empty() || random.chance(kProbeShare)) {
        add_probe(random, out);
        return;
    }
    if (type == kTypePtr) {
        out.add("lb");
        out.add("_dns-sd");
        out.add("_udp");
    } else if (random.chance(0.7)) {
        out.add(pick(kMachines, random));
    }
    out.add(pick(leaked_, random));
}

} // namespace reprise::mutator
