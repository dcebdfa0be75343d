#include "core/trace/losses.hh"

#include "core/trace/reader.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

constexpr double kTold = 0.001;

struct Kind {
    std::string_view counter;
    std::string_view what;
    std::string_view hint;
};

constexpr std::string_view kKeepFragments =
    "capture without a filter on ports, which drops all fragments but the first";

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
    Kind{.counter = "unknown_link",
         .what = "packets of interfaces whose link type is not read",
         .hint = "capture on Ethernet, Linux cooked, loopback or raw IP"},
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
};

} // namespace

std::vector<std::string> losses(const Counters& counters, std::uint64_t messages) {
    std::vector<std::pair<std::uint64_t, std::string>> found;
    for (const Kind& kind : kKinds) {
        const auto counter = counters.find(std::string(kind.counter));
        const std::uint64_t lost = counter == counters.end() ? 0 : counter->second;
        const double share = static_cast<double>(lost) / static_cast<double>(messages + lost);
        if (lost > 0 && share > kTold) {
            found.emplace_back(lost, fmt::format("{} {} ({:.1f} %): {}; {}", kind.counter, lost,
                                                 share * 100, kind.what, kind.hint));
        }
    }
    std::ranges::sort(found, std::greater<>{});
    std::vector<std::string> out;
    out.reserve(found.size());
    for (auto& [lost, text] : found) {
        out.push_back(std::move(text));
    }
    return out;
}

std::string losses_suffix(const Counters& counters, std::uint64_t messages) {
    const auto lines = losses(counters, messages);
    return lines.empty() ? "" : fmt::format("; {}", fmt::join(lines, "; "));
}

} // namespace reprise::trace
