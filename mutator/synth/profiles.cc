#include "mutator/synth/profiles.hh"

#include "core/base/error.hh"
#include "mutator/synth/synth_options.hh"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {
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
    for (const Profile& profile : profiles()) {
        if (profile.name == name) {
            return profile.options;
        }
    }
    throw UsageError(fmt::format("--profile {} is not known; see --help", name));
}

} // namespace reprise::mutator
