#include "core/trace/losses.hh"

#include "core/trace/reassembly/options.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {
namespace {

constexpr double kTold = 0.001;

struct Kind {
    std::string_view counter;
    std::string_view what;
    std::string_view hint{}; ///< what to do; empty where it is no loss
};

constexpr std::string_view kKeepFragments =
    "capture without a filter on ports, which drops all fragments but the first";

constexpr std::string_view kReadLinks =
    "capture on Ethernet, Linux cooked, loopback, 802.11, MPLS or raw IP";

constexpr std::array kKinds{
    Kind{.counter = "cut_packet",
         .what = "packets captured only in part",
         .hint = "capture whole packets (tcpdump -s 0)"},
    Kind{.counter = "tcp_gap",
         .what = "gaps in TCP connections",
         .hint = "capture with a larger buffer (tcpdump -B 65536)"},
    Kind{.counter = "fragment_timeout",
         .what = "datagrams with fragments missing",
         .hint = kKeepFragments},
    Kind{.counter = "fragment_evicted",
         .what = "datagrams with fragments missing, given up for lack of memory",
         .hint = kKeepFragments},
    Kind{.counter = "fragment_overlap",
         .what = "datagrams whose fragments contradict each other",
         .hint = "look at them in Wireshark: they are damaged or forged"},
    Kind{.counter = "tunnel_unread",
         .what = "packets in a tunnel within a tunnel, or in one of another kind",
         .hint = "capture where the inner packets travel"},
    Kind{.counter = "mpls_unread",
         .what = "packets behind MPLS labels that are neither IP nor Ethernet",
         .hint = "capture where they travel without labels"},
    Kind{.counter = "wlan_unread",
         .what = "802.11 frames that are encrypted or hold several packets",
         .hint = "capture at the access point's Ethernet, or decrypt them first"},
    Kind{.counter = "unknown_link",
         .what = "packets of interfaces whose link type is not read",
         .hint = kReadLinks},
    Kind{.counter = "long_message",
         .what = "messages of more than 65,535 bytes",
         .hint = "they are not DNS messages; check the program that wrote the trace"},
    Kind{.counter = "dnstap_bad_frame",
         .what = "dnstap frames that cannot be read",
         .hint = "look at what wrote the trace"},
    Kind{.counter = "cdns_bad_value",
         .what = "C-DNS items with invalid values",
         .hint = "look at what wrote the trace"},
    Kind{.counter = "cdns_bad_name",
         .what = "C-DNS items with invalid names",
         .hint = "look at what wrote the trace"},
    Kind{.counter = "cdns_bad_index",
         .what = "C-DNS items that refer to nothing",
         .hint = "look at what wrote the trace"},
    Kind{.counter = "not_ip", .what = "neither IPv4 nor IPv6"},
    Kind{.counter = "bad_packet", .what = "malformed headers"},
    Kind{.counter = "other_protocol", .what = "neither UDP nor TCP"},
    Kind{.counter = "other_port", .what = "neither end is a DNS port"},
    Kind{.counter = "empty_datagram", .what = "UDP without payload"},
    Kind{.counter = "short_message", .what = "shorter than a DNS header"},
    Kind{.counter = "tcp_gap_message", .what = "messages with gaps"},
    Kind{.counter = "tcp_unsynchronised_bytes",
         .what = "bytes before a connection's first message"},
    Kind{.counter = "tcp_evicted", .what = "connections given up for lack of memory"},
    Kind{.counter = "dnstap_no_message", .what = "frames without a DNS message"},
    Kind{.counter = "dnstap_unknown_type", .what = "frames of an unknown type"},
};

struct Unread {
    std::uint64_t count = 0;
    const Kind* kind = nullptr;
    double share = 0; ///< of itself and the messages read

    [[nodiscard]] std::string line() const {
        return fmt::format("{} {} ({:.1f} %): {}{}{}", kind->counter, count, share * 100,
                           kind->what, kind->hint.empty() ? "" : "; ", kind->hint);
    }
};

/// The largest first.
std::vector<Unread> find(const Counters& counters, std::uint64_t messages) {
    std::vector<Unread> found;
    for (const Kind& kind : kKinds) {
        const auto counter = counters.find(std::string(kind.counter));
        if (counter != counters.end() && counter->second > 0) {
            const std::uint64_t count = counter->second;
            found.push_back(
                {.count = count,
                 .kind = &kind,
                 .share = static_cast<double>(count) / static_cast<double>(messages + count)});
        }
    }
    std::ranges::sort(found, [](const Unread& one, const Unread& other) {
        return one.count != other.count ? one.count > other.count : one.kind < other.kind;
    });
    return found;
}

std::string suffix(const std::vector<std::string>& lines) {
    return lines.empty() ? "" : fmt::format("; {}", fmt::join(lines, "; "));
}

} // namespace

std::vector<std::string> losses(const Counters& counters, std::uint64_t messages) {
    std::vector<std::string> out;
    for (const Unread& unread : find(counters, messages)) {
        if (!unread.kind->hint.empty() && unread.share > kTold) {
            out.push_back(unread.line());
        }
    }
    return out;
}

std::string losses_suffix(const Counters& counters, std::uint64_t messages) {
    return suffix(losses(counters, messages));
}

std::string unread_suffix(const Counters& counters, std::uint64_t messages) {
    std::vector<std::string> lines;
    for (const Unread& unread : find(counters, messages)) {
        lines.push_back(unread.line());
    }
    return suffix(lines);
}

std::string left_out(const Counters& counters) {
    std::vector<std::string> parts;
    for (const Unread& unread : find(counters, 0)) {
        parts.push_back(
            fmt::format("{} {} ({})", unread.kind->counter, unread.count, unread.kind->what));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

} // namespace reprise::trace
