#include "core/trace/reassembly/tally.hh"

#include "core/trace/reassembly/options.hh"

#include <array>
#include <cstddef>
#include <string_view>

namespace reprise::trace {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Count::kEnd)> kNames{
    "not_ip",
    "bad_packet",
    "cut_packet",
    "unknown_link",
    "mpls_unread",
    "wlan_unread",
    "tunnel",
    "tunnel_unread",
    "other_protocol",
    "other_port",
    "empty_datagram",
    "short_message",
    "fragment",
    "fragment_timeout",
    "fragment_evicted",
    "fragment_overlap",
    "fragment_duplicate",
    "tcp_mid_stream",
    "tcp_gap",
    "tcp_gap_message",
    "tcp_out_of_order",
    "tcp_retransmission",
    "tcp_unsynchronised_bytes",
    "tcp_evicted",
    "tcp_empty_message",
};

} // namespace

Counters Tally::named() const {
    Counters out;
    for (size_t i = 0; i < values_.size(); ++i) {
        if (values_[i] != 0) {
            out.emplace(kNames[i], values_[i]);
        }
    }
    return out;
}

} // namespace reprise::trace
