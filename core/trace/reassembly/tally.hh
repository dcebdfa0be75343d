#pragma once
// Counters of the reader: an array while reading, names only when shown.

#include "core/trace/reassembly/options.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::trace {

/// How often each of an enumeration's values came, up to its kEnd; shown by their names.
template <typename What, const auto& kNames> class NamedCounts {
public:
    void add(What what, std::uint64_t n = 1) { values_[static_cast<size_t>(what)] += n; }

    void add(const NamedCounts& other) {
        for (size_t i = 0; i < values_.size(); ++i) {
            values_[i] += other.values_[i];
        }
    }

    [[nodiscard]] std::uint64_t get(What what) const { return values_[static_cast<size_t>(what)]; }

    /// Those above zero.
    [[nodiscard]] Counters named() const {
        Counters out;
        for (size_t i = 0; i < values_.size(); ++i) {
            if (values_[i] != 0) {
                out.emplace(kNames[i], values_[i]);
            }
        }
        return out;
    }

private:
    std::array<std::uint64_t, static_cast<size_t>(What::kEnd)> values_{};
};

/// What is counted; kCountNames says the name shown. Each is a packet unless its comment says
/// otherwise.
enum class Count : std::uint8_t {
    kNotIp,             ///< ARP, IPX, spanning tree
    kBadPacket,         ///< malformed link, IP, UDP or TCP header
    kCutPacket,         ///< the capture holds less than was sent, so a message is incomplete
    kUnknownLink,       ///< of a link type that is not read
    kMplsUnread,        ///< after MPLS labels, neither IP nor Ethernet
    kWlanUnread,        ///< 802.11: encrypted, or several in one (A-MSDU)
    kTunnel,            ///< taken out of a tunnel
    kTunnelUnread,      ///< in a tunnel within a tunnel, or one that holds neither IP nor Ethernet
    kOtherProtocol,     ///< IP but neither UDP nor TCP; DNS quoted inside ICMP is among them
    kOtherPort,         ///< neither end is a DNS port
    kEmptyDatagram,     ///< UDP without payload
    kShortMessage,      ///< messages: shorter than a DNS header
    kFragment,          ///< fragments, whether or not they became whole
    kFragmentTimeout,   ///< datagrams whose other fragments did not come in time
    kFragmentEvicted,   ///< datagrams given up for lack of memory
    kFragmentOverlap,   ///< datagrams given up because their fragments contradict each other
    kFragmentDuplicate, ///< fragments seen before
    kTcpMidStream,      ///< connections whose beginning is not in the capture
    kTcpGap,            ///< holes: bytes the capture does not have
    kTcpGapMessage,     ///< messages that a hole or a cut end left incomplete
    kTcpOutOfOrder,     ///< segments held back
    kTcpRetransmission, ///< segments seen before
    kTcpUnsynchronized, ///< bytes passed over in search of a message's beginning
    kTcpEvicted,        ///< connections given up for lack of memory
    kTcpEmptyMessage,   ///< messages: length prefix 0
    kEnd,
};

inline constexpr std::array<std::string_view, static_cast<size_t>(Count::kEnd)> kCountNames{
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

using Tally = NamedCounts<Count, kCountNames>;

} // namespace reprise::trace
