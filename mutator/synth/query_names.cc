#include "mutator/synth/query_names.hh"

#include "core/base/ascii.hh"
#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "mutator/synth/synth_options.hh"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_set>
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

namespace {

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
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kAlphanumeric = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view kCapitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr std::string_view kDigits = "0123456789";

constexpr std::uint16_t kTypeTxt = 16;
constexpr std::uint16_t kTypeAaaa = 28;

// Labels of names that do not exist (from 1; 7 stands for more) and of hosts that do (from 3).
const std::vector<double> kJunkLabels{0.446, 0.227, 0.09, 0.13, 0.045, 0.022, 0.04};
const std::vector<double> kHostLabels{0.653, 0.239, 0.078, 0.024, 0.006};

constexpr double kNsHost = 0.44;    ///< of hosts: ns1 and its like
constexpr double kProbeHost = 0.12; ///< of hosts: 13 characters, to get past caches
constexpr double kProbe = 0.93;     ///< of one-label junk: random letters, as browsers probe
constexpr double kQuad = 0.45;      ///< of four-label junk: an address taken for a name

/// Of the queries of a type, those for what does not exist.
double junk_of(std::uint16_t type) {
    switch (type) {
    case kTypeA:
        return 0.681;
    case kTypeAaaa:
        return 0.556;
    case kTypeNs:
        return 0.237;
    case kTypePtr:
        return 0.784;
    case kTypeSrv:
        return 0.99;
    case kTypeDs:
        return 0.04;
    case kTypeSoa:
        return 0.90;
    case kTypeAny:
        return 0.97;
    case kTypeMx:
        return 0.36;
    case kTypeTxt:
        return 0.81;
    case kTypeDnskey:
        return 0.01;
    default:
        return 0.6;
    }
}

double with_odds(double share, double factor) {
    return share * factor / (1 - share + share * factor);
}

double junk_sum(const Mix& types, double factor) {
    double junk = 0;
    double all = 0;
    for (const auto& item : types) {
        junk += item.weight * with_odds(junk_of(item.value), factor);
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

/// Of what exists, the share that asks for the root or a top-level domain itself.
double top_share(std::uint16_t type) {
    switch (type) {
    case kTypeNs:
        return 0.905;
    case kTypeSoa:
    case kTypeDnskey:
    case kTypeAny:
        return 0.5;
    default:
        return 0;
    }
}

bool asks_zones(std::uint16_t type) {
    return type == kTypeNs || type == kTypeSoa || type == kTypeDs || type == kTypeDnskey ||
           type == kTypeMx || type == kTypeTxt;
}

std::string lower_case(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), Lower{});
    return out;
}

/// The table's entries that are known, or those that are not; never empty.
template <typename Table>
std::vector<WeightedName> entries(const Table& table, const std::unordered_set<std::string>& known,
                                  bool wanted) {
    std::vector<WeightedName> out;
    for (const WeightedName& entry : table) {
        if (known.contains(lower_case(entry.name)) == wanted) {
            out.push_back(entry);
        }
    }
    return out.empty() ? std::vector<WeightedName>{{"test", 1}} : out;
}

std::vector<std::string_view> names_of(const std::vector<WeightedName>& table) {
    std::vector<std::string_view> names;
    std::ranges::transform(table, std::back_inserter(names), &WeightedName::name);
    return names;
}

WeightedChoice choice_of(const std::vector<WeightedName>& table) {
    std::vector<double> weights;
    std::ranges::transform(table, std::back_inserter(weights), &WeightedName::weight);
    return WeightedChoice(weights);
}

} // namespace

RootNames::RootNames(std::vector<std::string> tlds, const Mix& types, double junk_share)
    : tlds_(std::move(tlds)), known_(tlds_.begin(), tlds_.end()),
      popular_(names_of(entries(kPopularTlds, known_, true))),
      leaked_(names_of(entries(kLeakedTlds, known_, false))),
      popular_choice_(choice_of(entries(kPopularTlds, known_, true))),
      leaked_choice_(choice_of(entries(kLeakedTlds, known_, false))),
      tail_choice_(zipf_weights(tlds_.size(), 0.5)), junk_labels_(kJunkLabels),
      host_labels_(kHostLabels), odds_(odds_for(types, junk_share)) {}

bool RootNames::make(std::uint16_t type, Random& random, Name& out) {
    out.clear();
    const bool junk = random.chance(with_odds(junk_of(type), odds_));
    if (junk) {
        make_junk(type, random, out);
    } else {
        make_existing(type, random, out);
    }
    return junk;
}

bool RootNames::exists(std::string_view tld) const { return known_.contains(lower_case(tld)); }

void RootNames::add_random(Random& random, std::uint64_t low, std::uint64_t high,
                           std::string_view from, Name& out) {
    do {
        scratch_.resize(random.between(low, high));
        for (char& c : scratch_) {
            c = from[random.below(from.size())];
        }
    } while (exists(scratch_));
    out.add_label(scratch_);
}

void RootNames::add_syllables(Random& random, std::uint64_t low, std::uint64_t high, Name& out) {
    scratch_.clear();
    for (std::uint64_t i = random.between(low, high); i > 0; --i) {
        scratch_ += pick(kRootSyllables, random);
    }
    out.add_label(scratch_);
}

void RootNames::add_leaked_tld(Random& random, Name& out) {
    if (random.chance(kGarbageTld)) {
        add_random(random, 2, 10, kAlphanumeric, out);
    } else {
        out.add_label(leaked_[leaked_choice_.draw(random)]);
    }
}

void RootNames::add_tld(Random& random, Name& out) {
    if (random.chance(kTailShare)) {
        out.add_label(tlds_[tail_choice_.draw(random)]);
    } else {
        const std::string_view tld = popular_[popular_choice_.draw(random)];
        out.add_label(exists(tld) ? tld : std::string_view(tlds_.front()));
    }
}

/// A computer inside somebody's network.
void RootNames::add_machine(Random& random, Name& out) {
    const double draw = random.unit();
    if (draw < 0.45) {
        add_random(random, 7, 15, kLetters, out);
    } else if (draw < 0.7) {
        add_random(random, 2, 13, kCapitals, out);
    } else if (draw < 0.8) {
        add_random(random, 13, 13, kAlphanumeric, out);
    } else {
        add_syllables(random, 1, 5, out);
    }
}

// What Windows domains and multicast DNS let out.
void RootNames::make_service(std::uint16_t type, Random& random, Name& out) {
    if (type == kTypePtr) {
        out.add_label(random.chance(0.7) ? "lb" : "dr");
        out.add_label("_dns-sd");
        out.add_label("_udp");
    } else {
        out.add_label("_ldap");
        out.add_label("_tcp");
        for (std::uint64_t i = random.between(1, 4); i > 0; --i) {
            add_syllables(random, 3, 6, out);
        }
    }
    add_leaked_tld(random, out);
}

// A name that somebody's network should have kept, or an address taken for a name.
void RootNames::make_leaked(std::uint64_t labels, Random& random, Name& out) {
    if (labels == 4 && random.chance(kQuad)) {
        for (int i = 0; i < 4; ++i) {
            add_random(random, 2, 3, kDigits, out);
        }
        return;
    }
    if (labels > 2 && random.chance(0.4)) {
        out.add_label("www");
    } else {
        add_machine(random, out);
    }
    for (std::uint64_t i = 2; i < labels; ++i) {
        add_syllables(random, 1, 4, out);
    }
    add_leaked_tld(random, out);
}

void RootNames::make_junk(std::uint16_t type, Random& random, Name& out) {
    if (type == kTypeSrv || type == kTypePtr) {
        make_service(type, random, out);
        return;
    }
    const std::uint64_t labels = junk_labels_.draw(random) + 1;
    if (labels > 1) {
        make_leaked(labels, random, out);
    } else if (random.chance(kProbe)) {
        add_random(random, 7, 15, kLetters, out);
    } else {
        add_random(random, 2, 24, kCapitals, out);
    }
}

void RootNames::add_zone(Random& random, Name& out) {
    add_syllables(random, 2, 6, out);
    add_tld(random, out);
}

void RootNames::add_host(Random& random, Name& out) {
    const std::uint64_t middle = host_labels_.draw(random);
    const double draw = random.unit();
    if (draw < kNsHost) {
        out.add_label(pick(kNs, random));
    } else if (draw < kNsHost + kProbeHost) {
        add_random(random, 13, 13, kAlphanumeric, out);
    } else if (draw < 0.67) {
        out.add_label(pick(kShort, random));
    } else if (draw < 0.77) {
        add_random(random, 1, 2, kLetters, out);
    } else {
        add_syllables(random, 2, 5, out);
    }
    for (std::uint64_t i = 0; i < middle; ++i) {
        add_syllables(random, 1, 3, out);
    }
    add_zone(random, out);
}

void RootNames::make_existing(std::uint16_t type, Random& random, Name& out) {
    if (type == kTypePtr) {
        add_reverse(random, out);
    } else if (random.chance(top_share(type))) {
        return; // the root itself
    } else if (asks_zones(type)) {
        if (random.chance(0.12)) {
            add_tld(random, out);
        } else {
            add_zone(random, out);
        }
    } else {
        add_host(random, out);
    }
}

} // namespace reprise::mutator
