#pragma once
// What a synthetic trace looks like: every default in one place, and its checks.

#include "core/base/address.hh"
#include "core/base/random.hh"
#include "core/dns/name.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {

/// Where names come from: root-like by few rules, root-like by the figures of a real minute, one
/// name a query below a domain, a list.
enum class NameKind : std::uint8_t { kSimple, kRoot, kUnique, kList };

/// Clients' ports: any above 1023 drawn for each query; or by client, as the real minute has them.
enum class PortStyle : std::uint8_t { kRandom, kMixed };

/// An item of a mix, e.g. query type 28 with weight 23. Weights are relative to their sum.
struct WeightedNumber {
    std::uint16_t value = 0;
    double weight = 0;

    bool operator==(const WeightedNumber&) const = default;
};

using Mix = std::vector<WeightedNumber>;

/// Shares are of all queries unless said otherwise, from 0 to 1. The numbers here resemble a root
/// server's traffic; profiles() has other sets of them.
struct SynthOptions {
    std::optional<std::uint64_t> queries; ///< at most this many
    std::optional<double> duration_s;     ///< arrivals before this time
    double profile_duration_s = 60;       ///< where neither is given
    double rate_qps = 1000;
    Arrival arrival = Arrival::kPoisson;
    double gap_cv = 2; ///< bursty arrivals: standard deviation of gaps over their mean
    std::uint64_t clients = 1000;
    double zipf = 1.0;     ///< exponent of the clients' activity
    double zipf_shift = 0; ///< added to each client's rank: flattens the busiest
    PortStyle ports = PortStyle::kRandom;
    double ipv6_share = 0.12;
    double tcp_share = 0.01;
    double tcp_queries = 1.2; ///< mean queries a connection
    double edns_share = 0.88;
    double do_share = 0.8; ///< of the queries with EDNS
    double cd_share = 0;   ///< of the queries with DO
    double junk_share = 0.5;
    double rd_share = 0.02;
    std::string edns_sizes = "4096:60,1232:25,512:15";
    std::string types = "A:57,AAAA:23,NS:5,PTR:4,SRV:3,DS:3,SOA:2,MX:1,TXT:1,ANY:1";
    bool root_names = false;    ///< NameKind::kRoot in place of kSimple
    std::string unique_below;   ///< a domain: NameKind::kUnique
    std::string names;          ///< a file: NameKind::kList
    bool wants_names = false;   ///< the profile is of no use without `names`
    double names_zipf = 1.0;    ///< exponent of the names' popularity
    bool names_in_turn = false; ///< each client asks for them in their order
    std::string tld_file = "/usr/share/publicsuffix/public_suffix_list.dat";
    double start_s = 1'704'067'200; ///< 2024-01-01T00:00:00Z
    std::string server = "192.0.2.53";
    std::string server6 = "2001:db8::53";
    std::string client_prefix = "198.18.0.0/15";       ///< RFC 2544, for benchmarks
    std::string client_prefix6 = "2001:db8:c000::/34"; ///< RFC 3849, for documentation
    std::uint64_t seed = 1;
    std::string output; ///< "-" is standard output
    std::string form;   ///< of the output: pcap, text, stream; empty = by its name
    bool check = false; ///< only look at the options
};

/// The same, checked and parsed.
struct SynthSettings {
    SynthOptions options;
    std::uint64_t most_queries = 0; ///< UINT64_MAX = no limit
    double duration_ns = 0;         ///< infinity = no limit
    NameKind names = NameKind::kSimple;
    Name unique_below;
    Mix edns_sizes;
    Mix types;
    Endpoint server4;
    Endpoint server6;
    Prefix clients4; ///< bits behind the prefix are zero
    Prefix clients6;
};

/// Throws UsageError naming the option and the hint.
SynthSettings check_options(const SynthOptions& options);

/// A set of options with a name.
struct Profile {
    std::string name;
    std::string help; ///< half a line
    SynthOptions options;
};

/// simple first: the options' own defaults.
const std::vector<Profile>& profiles();

/// Throws UsageError where there is no such profile.
const SynthOptions& profile_options(std::string_view name);

} // namespace reprise::mutator
