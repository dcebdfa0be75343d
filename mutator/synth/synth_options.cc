#include "mutator/synth/synth_options.hh"

#include "core/base/error.hh"
#include "core/base/random.hh"
#include "core/base/text.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {

namespace {

constexpr double kMostSeconds = 4'294'967'295.0; // pcap's 32-bit seconds
constexpr std::uint64_t kMostClients = 10'000'000;
constexpr std::uint64_t kMostQueries = 1'000'000'000'000;

/// `value` must lie in [low, high]; NaN does not.
void want_between(std::string_view option, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
        throw UsageError(
            fmt::format("{} {} is out of range; give {} to {}", option, value, low, high));
    }
}

/// Parses "A:50,AAAA:25" or "4096:60,1232:25"; a weight left out is 1.
template <typename Parse>
Mix parse_mix(std::string_view text, std::string_view option, Parse parse_value) {
    Mix mix;
    double total = 0;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        const std::string_view item = text.substr(at, end - at);
        const size_t colon = std::min(item.find(':'), item.size());
        const auto value = parse_value(item.substr(0, colon));
        const auto weight = colon == item.size() ? std::optional(1.0)
                                                 : parse_number<double>(item.substr(colon + 1));
        if (!value || !weight || !(*weight >= 0 && *weight <= 1e9)) {
            throw UsageError(fmt::format("{} has '{}'; give VALUE:WEIGHT,VALUE:WEIGHT,... with "
                                         "weights from 0 to 1e9",
                                         option, item));
        }
        mix.push_back({*value, *weight});
        total += *weight;
        at = end + 1;
    }
    if (!(total > 0) || mix.size() > 64) {
        throw UsageError(fmt::format("{} must have 1 to 64 items and a weight above 0", option));
    }
    return mix;
}

Endpoint parse_server(const std::string& text, unsigned family, std::string_view option) {
    const auto address = IpAddress::parse(text);
    if (!address || address->family != family) {
        throw UsageError(fmt::format("{} {} is not an IPv{} address; give one, like {}", option,
                                     text, family, family == 4 ? "192.0.2.53" : "2001:db8::53"));
    }
    return {*address, kDnsPort};
}

void check_shares(const SynthOptions& options) {
    want_between("--ipv6-share", options.ipv6_share, 0, 1);
    want_between("--tcp-share", options.tcp_share, 0, 1);
    want_between("--edns-share", options.edns_share, 0, 1);
    want_between("--do-share", options.do_share, 0, 1);
    want_between("--cd-share", options.cd_share, 0, 1);
    want_between("--junk-share", options.junk_share, 0, 1);
    want_between("--rd-share", options.rd_share, 0, 1);
}

void check_sizes(const SynthOptions& options) {
    if (options.queries && options.duration_s) {
        throw UsageError("--queries and --duration are both given; give one of them");
    }
    const double duration = options.duration_s.value_or(options.profile_duration_s);
    want_between("--duration", duration, 1e-9, kMostSeconds);
    want_between("--rate", options.rate_qps, 0.001, 1e8);
    want_between("--gap-cv", options.gap_cv, 1, 100);
    want_between("--zipf", options.zipf, 0, 10);
    want_between("--zipf-shift", options.zipf_shift, 0, 1e9);
    want_between("--names-zipf", options.names_zipf, 0, 10);
    want_between("--tcp-queries", options.tcp_queries, 1, 1000);
    want_between("--clients", static_cast<double>(options.clients), 1,
                 static_cast<double>(kMostClients));
    const double queries = static_cast<double>(options.queries.value_or(1));
    want_between("--queries", queries, 1, static_cast<double>(kMostQueries));
    want_between("--start", options.start_s, 0, kMostSeconds);
    const double length = options.queries ? queries / options.rate_qps : duration;
    if (options.start_s + length > kMostSeconds) {
        throw UsageError(fmt::format("the trace would end after the year 2106, which pcap cannot "
                                     "hold (it lasts {} s); give a smaller --start or a higher "
                                     "--rate",
                                     length));
    }
}

/// Every client needs an address of its own, and the prefix's first and last are not hosts.
void check_room(const Prefix& prefix, std::uint64_t clients, std::string_view option) {
    const unsigned bits = prefix.free_bits();
    if (bits < 2 || (bits < 63 && (std::uint64_t{1} << bits) - 2 < clients)) {
        throw UsageError(fmt::format("{} /{} has too few addresses for {} clients; give a shorter "
                                     "prefix or fewer --clients",
                                     option, prefix.bits, clients));
    }
}

constexpr size_t kLongestDomain = 238; ///< leaves room for the unique label

/// The domain below which unique names are made; empty where there are none.
Name read_domain(std::string_view text) {
    Name domain;
    if (!text.empty() && (!domain.parse(text).empty() || text.size() > kLongestDomain)) {
        throw UsageError(fmt::format("--unique-below {} is not a domain name of at most {} bytes; "
                                     "give one, like example.com",
                                     text, kLongestDomain));
    }
    return domain;
}

NameKind name_kind(const SynthOptions& options) {
    if (!options.names.empty()) {
        return NameKind::kList;
    }
    if (options.names_in_turn) {
        throw UsageError("--names-in-turn has no names; give a list with --names FILE");
    }
    if (!options.unique_below.empty()) {
        return NameKind::kUnique;
    }
    if (options.wants_names) {
        throw UsageError("the profile asks names of a list; give it with --names FILE, one name a "
                         "line");
    }
    return options.root_names ? NameKind::kRoot : NameKind::kSimple;
}

Prefix parse_prefix(std::string_view text, unsigned family, std::string_view option) {
    const auto prefix = Prefix::parse(text);
    if (!prefix || prefix->address.family != family || text.find('/') == std::string_view::npos) {
        throw UsageError(fmt::format("{} {} is not an IPv{} prefix; give one, like {}", option,
                                     text, family,
                                     family == 4 ? "198.18.0.0/15" : "2001:db8:c000::/34"));
    }
    return {.address = masked(prefix->address, prefix->bits), .bits = prefix->bits};
}

} // namespace

SynthSettings check_options(const SynthOptions& options) {
    check_shares(options);
    check_sizes(options);
    SynthSettings settings;
    settings.options = options;
    settings.most_queries = options.queries.value_or(std::numeric_limits<std::uint64_t>::max());
    settings.duration_ns = options.queries
                               ? std::numeric_limits<double>::infinity()
                               : options.duration_s.value_or(options.profile_duration_s) * 1e9;
    settings.names = name_kind(options);
    settings.unique_below = read_domain(options.unique_below);
    settings.edns_sizes =
        parse_mix(options.edns_sizes, "--edns-sizes",
                  [](std::string_view number) { return parse_number<std::uint16_t>(number); });
    settings.types = parse_mix(options.types, "--types", type_number);
    settings.server4 = parse_server(options.server, 4, "--server");
    settings.server6 = parse_server(options.server6, 6, "--server6");
    settings.clients4 = parse_prefix(options.client_prefix, 4, "--client-prefix");
    settings.clients6 = parse_prefix(options.client_prefix6, 6, "--client-prefix6");
    check_room(settings.clients4, options.ipv6_share < 1 ? options.clients : 1, "--client-prefix");
    check_room(settings.clients6, options.ipv6_share > 0 ? options.clients : 1, "--client-prefix6");
    return settings;
}

namespace {

/// LDplayer's syn-0 to syn-4 (ISI-TR-722, table 1): an hour of fixed gaps, a new name for each
/// query. Each query comes from one of 10,000 clients, all alike: that gives the published numbers
/// of distinct clients, 3 k of 3.6 k queries and 9.7 k of 36 k.
SynthOptions syn(double gap_s) {
    SynthOptions options;
    options.profile_duration_s = 3600;
    options.rate_qps = 1 / gap_s;
    options.arrival = Arrival::kFixed;
    options.clients = 10'000;
    options.zipf = 0;
    options.ipv6_share = 0;
    options.tcp_share = 0;
    options.edns_share = 0;
    options.rd_share = 0;
    options.types = "A";
    options.unique_below = "example.com";
    return options;
}

/// A root server's minute (2016-10-06, 10,432 queries, 2,491 clients; docs/synthetic.md). The
/// clients are those that may ask, about half of which do in a minute.
SynthOptions root() {
    SynthOptions options;
    options.rate_qps = 174;
    options.clients = 5000;
    options.zipf = 1.1;
    options.zipf_shift = 10;
    options.ports = PortStyle::kMixed;
    options.ipv6_share = 0.1113;
    options.tcp_share = 0.0102;
    options.tcp_queries = 1;
    options.edns_share = 0.8767;
    options.do_share = 0.8086;
    options.cd_share = 0.7037;
    options.junk_share = 0.6301;
    options.rd_share = 0.0182;
    options.edns_sizes = "4096:6240,8192:1298,1280:327,1460:279,4000:256,512:237,1480:207,"
                         "1440:199,1410:58,1252:11,2048:6,1432:5";
    options.types = "A:5966,AAAA:2428,NS:553,PTR:393,SRV:312,DS:267,SOA:201,ANY:138,MX:73,TXT:58,"
                    "DNSKEY:18,CNAME:8,NAPTR:7";
    options.root_names = true;
    return options;
}

/// Stub clients of a recursive resolver, in numbers like LDplayer's Rec-17: an hour, 91 clients,
/// gaps of 0.180799 s with a standard deviation of 0.355360 s. What they ask is up to the list.
SynthOptions recursive() {
    SynthOptions options;
    options.profile_duration_s = 3600;
    options.rate_qps = 1 / 0.180799;
    options.arrival = Arrival::kBursty;
    options.gap_cv = 0.355360 / 0.180799;
    options.clients = 91;
    options.zipf = 0.8;
    options.ipv6_share = 0;
    options.tcp_share = 0;
    options.edns_share = 0.2;
    options.do_share = 0;
    options.rd_share = 1;
    options.edns_sizes = "1232:70,4096:30";
    options.types = "A:60,AAAA:25,HTTPS:10,PTR:2,MX:1,TXT:1,SRV:1";
    options.wants_names = true;
    return options;
}

} // namespace

const std::vector<Profile>& profiles() {
    static const std::vector<Profile> kProfiles{
        {"simple", "root-like by few rules, with the defaults shown here", {}},
        {"root", "as a real minute of a root server: clients, ports, names, types", root()},
        {"recursive", "stub clients of a resolver; needs --names", recursive()},
        {"syn-0", "LDplayer's: an hour, a query each second, 10,000 clients, unique names", syn(1)},
        {"syn-1", "each 0.1 s", syn(0.1)},
        {"syn-2", "each 10 ms", syn(0.01)},
        {"syn-3", "each ms", syn(0.001)},
        {"syn-4", "each 0.1 ms", syn(0.0001)},
    };
    return kProfiles;
}

const SynthOptions& profile_options(std::string_view name) {
    const auto found = std::ranges::find(profiles(), name, &Profile::name);
    if (found != profiles().end()) {
        return found->options;
    }
    throw UsageError(fmt::format("--profile {} is not known; see --help", name));
}

} // namespace reprise::mutator
