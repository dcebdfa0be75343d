#include "core/base/random.hh"
#include "core/base/text.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "mutator/synth/names.hh"
#include "mutator/synth/synth_options.hh"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::mutator {

namespace {

using KnownNames = std::unordered_set<std::string>; ///< in lower case

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

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";

template <typename Table> std::string_view pick(const Table& table, Random& random) {
    return table[random.below(table.size())];
}

std::string lower_case(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), Lower{});
    return out;
}

/// A label of `low` to `high` characters of `from` that is none of the names known, in any case.
void add_random(Random& random, std::uint64_t low, std::uint64_t high, std::string_view from,
                const KnownNames& known, Name& out) {
    std::string label;
    do {
        label.resize(random.between(low, high));
        for (char& c : label) {
            c = from[random.below(from.size())];
        }
    } while (known.contains(lower_case(label)));
    out.add_label(label);
}

template <typename Table>
void add_syllables(Random& random, std::uint64_t low, std::uint64_t high, const Table& syllables,
                   Name& out) {
    std::string label;
    for (std::uint64_t i = random.between(low, high); i > 0; --i) {
        label += pick(syllables, random);
    }
    out.add_label(label);
}

/// A name below in-addr.arpa.
void add_reverse(Random& random, Name& out) {
    for (int i = 0; i < 4; ++i) {
        out.add_label(std::to_string(random.below(256)));
    }
    out.add_label("in-addr");
    out.add_label("arpa");
}

class NameMaker {
public:
    NameMaker(std::vector<std::string> tlds, double junk_share)
        : tlds_(std::move(tlds)), junk_share_(junk_share),
          popularity_(zipf_weights(tlds_.size(), 1.0)), known_(tlds_.begin(), tlds_.end()) {
        std::ranges::copy_if(kLeaked, std::back_inserter(leaked_), [this](std::string_view name) {
            return !known_.contains(std::string(name));
        });
    }

    bool make(std::uint16_t type, Random& random, Name& out) {
        out.clear();
        const bool junk = random.chance(junk_share_);
        junk ? make_junk(type, random, out) : make_good(type, random, out);
        return junk;
    }

private:
    /// A name fit for the type: the root or a TLD for NS, DS, DNSKEY and SOA, in-addr.arpa for PTR,
    /// else a host's.
    void make_good(std::uint16_t type, Random& random, Name& out) {
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

    /// A name whose TLD does not exist: a random label as Chromium's probes (7 to 15 letters), or a
    /// leaked local name.
    void make_junk(std::uint16_t type, Random& random, Name& out) {
        if (leaked_.empty() || random.chance(kProbeShare)) {
            add_random(random, 7, 15, kLetters, known_, out);
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

    void add_tld(Random& random, Name& out) { out.add_label(tlds_[popularity_.draw(random)]); }

    void add_host(Random& random, Name& out) {
        if (random.chance(0.6)) {
            out.add_label(pick(kHosts, random));
        }
        add_syllables(random, 2, 4, kSyllables, out);
        add_tld(random, out);
    }

    std::vector<std::string> tlds_;
    double junk_share_;
    WeightedChoice popularity_;
    KnownNames known_;
    std::vector<std::string_view> leaked_; ///< local TLDs that are not delegated
};

struct WeightedName {
    std::string_view name;
    double weight;
};

/// Top-level domains of names that exist, queries each; the others are drawn by rank.
constexpr std::array<WeightedName, 40> kPopularTlds{{
    {"com", 1313}, {"net", 689}, {"org", 213}, {"biz", 96}, {"cn", 47},   {"edu", 45}, {"uk", 43},
    {"jp", 40},    {"br", 36},   {"ru", 35},   {"au", 30},  {"info", 28}, {"us", 25},  {"in", 24},
    {"ca", 22},    {"de", 21},   {"kr", 18},   {"it", 17},  {"nl", 15},   {"pl", 13},  {"gov", 13},
    {"ro", 13},    {"eu", 13},   {"at", 13},   {"fr", 12},  {"tw", 12},   {"es", 11},  {"id", 10},
    {"cl", 10},    {"co", 10},   {"vn", 10},   {"se", 9},   {"io", 9},    {"xyz", 9},  {"ar", 9},
    {"mx", 8},     {"bg", 8},    {"hk", 7},    {"hu", 7},   {"cz", 6},
}};
constexpr double kTailShare = 0.105; ///< of the queries for existing domains: not of the table

/// Top-level domains that leak from inside networks, queries each.
constexpr std::array<WeightedName, 26> kLeakedTlds{{
    {"local", 700},    {"LOCAL", 90},     {"home", 240},     {"Home", 127},        {"Belkin", 129},
    {"corp", 109},     {"lan", 81},       {"telus", 78},     {"localdomain", 74},  {"PK5001Z", 50},
    {"actdsltmp", 46}, {"localhost", 43}, {"invalid", 31},   {"domain", 30},       {"fsne", 27},
    {"FREE", 25},      {"http", 23},      {"DHCP", 22},      {"pvt", 16},          {"setting", 15},
    {"loc", 14},       {"internal", 14},  {"WORKGROUP", 14}, {"AmpedWireless", 9}, {"intranet", 8},
    {"pri", 7},
}};
constexpr double kGarbageTld = 0.42; ///< of leaked names: a top-level domain seen once

constexpr std::array<std::string_view, 32> kRootSyllables{
    "ba", "be", "bo", "ca", "co", "da", "de", "di", "do", "fa", "fi", "ga", "go", "ha", "ka", "ki",
    "la", "le", "li", "lo", "ma", "me", "mi", "mo", "na", "no", "pa", "ra", "re", "ri", "so", "ta"};

constexpr std::array<std::string_view, 8> kNs{"ns1", "ns2", "ns1", "ns2",
                                              "ns3", "dns", "www", "ns4"};
constexpr std::array<std::string_view, 6> kShort{"ns01", "ns02", "dns1", "dns2", "mail", "pdns"};
constexpr std::string_view kAlphanumeric = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view kCapitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::string_view kDigits = "0123456789";

// Labels of names that do not exist (from 1; 7 stands for more) and of hosts that do (from 3).
const std::vector<double> kJunkLabels{0.446, 0.227, 0.09, 0.13, 0.045, 0.022, 0.04};
const std::vector<double> kHostLabels{0.653, 0.239, 0.078, 0.024, 0.006};

constexpr double kNsHost = 0.44;    ///< of hosts: ns1 and its like
constexpr double kProbeHost = 0.12; ///< of hosts: 13 characters, to get past caches
constexpr double kProbe = 0.93;     ///< of one-label junk: random letters, as browsers probe
constexpr double kQuad = 0.45;      ///< of four-label junk: an address taken for a name

/// What queries of a type ask for.
struct TypeShares {
    std::uint16_t type;
    double junk; ///< what does not exist
    double top;  ///< of the rest: the root or a top-level domain itself
    bool zones;  ///< of what is left then: zones, or else hosts
};

constexpr std::array<TypeShares, 11> kTypeShares{{
    {kTypeA, 0.681, 0, false},
    {kTypeAaaa, 0.556, 0, false},
    {kTypeNs, 0.237, 0.905, true},
    {kTypePtr, 0.784, 0, false},
    {kTypeSrv, 0.99, 0, false},
    {kTypeDs, 0.04, 0, true},
    {kTypeSoa, 0.90, 0.5, true},
    {kTypeAny, 0.97, 0.5, false},
    {kTypeMx, 0.36, 0, true},
    {kTypeTxt, 0.81, 0, true},
    {kTypeDnskey, 0.01, 0.5, true},
}};
constexpr TypeShares kOtherType{0, 0.6, 0, false};

const TypeShares& shares_of(std::uint16_t type) {
    const auto* const found = std::ranges::find(kTypeShares, type, &TypeShares::type);
    return found != kTypeShares.end() ? *found : kOtherType;
}

double with_odds(double share, double factor) {
    return share * factor / (1 - share + share * factor);
}

double junk_sum(const Mix& types, double factor) {
    double junk = 0;
    double all = 0;
    for (const auto& item : types) {
        junk += item.weight * with_odds(shares_of(item.value).junk, factor);
        all += item.weight;
    }
    return junk / all;
}

/// The factor of the odds with which the whole has `share` of junk.
double odds_for(const Mix& types, double share) {
    double low = 0;
    double high = 1e9;
    for (int i = 0; i < 200; ++i) {
        const double middle = (low + high) / 2;
        (junk_sum(types, middle) < share ? low : high) = middle;
    }
    return high;
}

/// A table's names that are known, or those that are not (`wanted`); never empty.
struct Choice {
    Choice(std::span<const WeightedName> table, const KnownNames& known, bool wanted) {
        std::vector<double> weights;
        for (const auto& [name, weight] : table) {
            if (known.contains(lower_case(name)) == wanted) {
                names.push_back(name);
                weights.push_back(weight);
            }
        }
        if (names.empty()) {
            names.emplace_back("test");
            weights.push_back(1);
        }
        choice = WeightedChoice(weights);
    }

    std::string_view draw(Random& random) const { return names[choice.draw(random)]; }

    std::vector<std::string_view> names;
    WeightedChoice choice{std::vector<double>{1}};
};

class RootNames {
public:
    RootNames(std::vector<std::string> tlds, const Mix& types, double junk_share)
        : tlds_(std::move(tlds)), known_(tlds_.begin(), tlds_.end()),
          popular_(kPopularTlds, known_, true), leaked_(kLeakedTlds, known_, false),
          tail_choice_(zipf_weights(tlds_.size(), 0.5)), junk_labels_(kJunkLabels),
          host_labels_(kHostLabels), odds_(odds_for(types, junk_share)) {}

    bool make(std::uint16_t type, Random& random, Name& out) {
        out.clear();
        const bool junk = random.chance(with_odds(shares_of(type).junk, odds_));
        if (junk) {
            make_junk(type, random, out);
        } else {
            make_existing(type, random, out);
        }
        return junk;
    }

private:
    // What Windows domains and multicast DNS let out.
    void make_service(std::uint16_t type, Random& random, Name& out) {
        if (type == kTypePtr) {
            out.add_label(random.chance(0.7) ? "lb" : "dr");
            out.add_label("_dns-sd");
            out.add_label("_udp");
        } else {
            out.add_label("_ldap");
            out.add_label("_tcp");
            for (std::uint64_t i = random.between(1, 4); i > 0; --i) {
                add_syllables(random, 3, 6, kRootSyllables, out);
            }
        }
        add_leaked_tld(random, out);
    }

    // A name that somebody's network should have kept, or an address taken for a name.
    void make_leaked(std::uint64_t labels, Random& random, Name& out) {
        if (labels == 4 && random.chance(kQuad)) {
            for (int i = 0; i < 4; ++i) {
                add_random(random, 2, 3, kDigits, known_, out);
            }
            return;
        }
        if (labels > 2 && random.chance(0.4)) {
            out.add_label("www");
        } else {
            add_machine(random, out);
        }
        for (std::uint64_t i = 2; i < labels; ++i) {
            add_syllables(random, 1, 4, kRootSyllables, out);
        }
        add_leaked_tld(random, out);
    }

    void make_junk(std::uint16_t type, Random& random, Name& out) {
        if (type == kTypeSrv || type == kTypePtr) {
            make_service(type, random, out);
            return;
        }
        const std::uint64_t labels = junk_labels_.draw(random) + 1;
        if (labels > 1) {
            make_leaked(labels, random, out);
        } else if (random.chance(kProbe)) {
            add_random(random, 7, 15, kLetters, known_, out);
        } else {
            add_random(random, 2, 24, kCapitals, known_, out);
        }
    }

    void make_existing(std::uint16_t type, Random& random, Name& out) {
        if (type == kTypePtr) {
            add_reverse(random, out);
        } else if (random.chance(shares_of(type).top)) {
            return; // the root itself
        } else if (shares_of(type).zones) {
            if (random.chance(0.12)) {
                add_tld(random, out);
            } else {
                add_zone(random, out);
            }
        } else {
            add_host(random, out);
        }
    }

    void add_zone(Random& random, Name& out) {
        add_syllables(random, 2, 6, kRootSyllables, out);
        add_tld(random, out);
    }

    void add_host(Random& random, Name& out) {
        const std::uint64_t middle = host_labels_.draw(random);
        const double draw = random.unit();
        if (draw < kNsHost) {
            out.add_label(pick(kNs, random));
        } else if (draw < kNsHost + kProbeHost) {
            add_random(random, 13, 13, kAlphanumeric, known_, out);
        } else if (draw < 0.67) {
            out.add_label(pick(kShort, random));
        } else if (draw < 0.77) {
            add_random(random, 1, 2, kLetters, known_, out);
        } else {
            add_syllables(random, 2, 5, kRootSyllables, out);
        }
        for (std::uint64_t i = 0; i < middle; ++i) {
            add_syllables(random, 1, 3, kRootSyllables, out);
        }
        add_zone(random, out);
    }

    /// A computer inside somebody's network.
    void add_machine(Random& random, Name& out) {
        const double draw = random.unit();
        if (draw < 0.45) {
            add_random(random, 7, 15, kLetters, known_, out);
        } else if (draw < 0.7) {
            add_random(random, 2, 13, kCapitals, known_, out);
        } else if (draw < 0.8) {
            add_random(random, 13, 13, kAlphanumeric, known_, out);
        } else {
            add_syllables(random, 1, 5, kRootSyllables, out);
        }
    }

    void add_leaked_tld(Random& random, Name& out) {
        if (random.chance(kGarbageTld)) {
            add_random(random, 2, 10, kAlphanumeric, known_, out);
        } else {
            out.add_label(leaked_.draw(random));
        }
    }

    void add_tld(Random& random, Name& out) {
        if (random.chance(kTailShare)) {
            out.add_label(tlds_[tail_choice_.draw(random)]);
        } else {
            const std::string_view tld = popular_.draw(random);
            out.add_label(known_.contains(std::string(tld)) ? tld
                                                            : std::string_view(tlds_.front()));
        }
    }

    std::vector<std::string> tlds_;
    KnownNames known_;
    Choice popular_;
    Choice leaked_;
    WeightedChoice tail_choice_; ///< all that exist, by rank
    WeightedChoice junk_labels_;
    WeightedChoice host_labels_;
    double odds_ = 1; ///< factor of each type's odds of junk
};

template <typename Maker> MakeName made_by(Maker names) {
    return [names = std::move(names)](std::uint32_t /*client*/, std::uint16_t type, Random& random,
                                      Name& out) mutable { return names.make(type, random, out); };
}

} // namespace

MakeName simple_names(std::vector<std::string> tlds, double junk_share) {
    return made_by(NameMaker(std::move(tlds), junk_share));
}

MakeName root_names(std::vector<std::string> tlds, const Mix& types, double junk_share) {
    return made_by(RootNames(std::move(tlds), types, junk_share));
}

} // namespace reprise::mutator
