#pragma once
// Counters of the reader: an array while reading, names only when shown.

#include "core/trace/reassembly/options.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::trace {

/// What is counted; kCountKinds says how it is shown. Each is a packet unless its comment says
/// otherwise.
enum class Count : std::uint8_t {
    kNotIp,             ///< ARP, IPX, spanning tree
    kBadPacket,         ///< malformed link, IP, UDP or TCP header
    kCutPacket,         ///< the capture holds less than was sent, so a message is incomplete
    kUnknownLink,       ///< of a link type that is not read
    kMplsUnread,        ///< after MPLS labels, neither IP nor Ethernet
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

/// What is told of a counter.
struct CountKind {
    std::string_view name;
    std::string_view what{}; ///< empty where nothing was left out
    std::string_view hint{}; ///< what to do; empty where that is no loss
};

inline constexpr std::string_view kKeepFragments =
    "capture without a filter on ports, which drops all fragments but the first";
inline constexpr std::string_view kLookAtWriter = "look at what wrote the trace";

inline constexpr size_t kCounts = static_cast<size_t>(Count::kEnd);

/// By Count; behind these, what forms count by name and did not yield.
inline constexpr std::array<CountKind, kCounts + 7> kCountKinds{{
    {"not_ip", "neither IPv4 nor IPv6"},
    {"bad_packet", "malformed headers"},
    {"cut_packet", "packets captured only in part", "capture whole packets (tcpdump -s 0)"},
    {"unknown_link", "packets of interfaces whose link type is not read",
     "capture on Ethernet, Linux cooked, loopback, MPLS or raw IP"},
    {"mpls_unread", "packets behind MPLS labels that are neither IP nor Ethernet",
     "capture where they travel without labels"},
    {"tunnel"},
    {"tunnel_unread", "packets in a tunnel within a tunnel, or in one of another kind",
     "capture where the inner packets travel"},
    {"other_protocol", "neither UDP nor TCP"},
    {"other_port", "neither end is a DNS port"},
    {"empty_datagram", "UDP without payload"},
    {"short_message", "shorter than a DNS header"},
    {"fragment"},
    {"fragment_timeout", "datagrams with fragments missing", kKeepFragments},
    {"fragment_evicted", "datagrams with fragments missing, given up for lack of memory",
     kKeepFragments},
    {"fragment_overlap", "datagrams whose fragments contradict each other",
     "look at them in Wireshark: they are damaged or forged"},
    {"fragment_duplicate"},
    {"tcp_mid_stream"},
    {"tcp_gap", "gaps in TCP connections", "capture with a larger buffer (tcpdump -B 65536)"},
    {"tcp_gap_message", "messages with gaps"},
    {"tcp_out_of_order"},
    {"tcp_retransmission"},
    {"tcp_unsynchronised_bytes", "bytes before a connection's first message"},
    {"tcp_evicted", "connections given up for lack of memory"},
    {"tcp_empty_message"},
    {"long_message", "messages of more than 65,535 bytes",
     "they are not DNS messages; check the program that wrote the trace"},
    {"dnstap_bad_frame", "dnstap frames that cannot be read", kLookAtWriter},
    {"cdns_bad_value", "C-DNS items with invalid values", kLookAtWriter},
    {"cdns_bad_name", "C-DNS items with invalid names", kLookAtWriter},
    {"cdns_bad_index", "C-DNS items that refer to nothing", kLookAtWriter},
    {"dnstap_no_message", "frames without a DNS message"},
    {"dnstap_unknown_type", "frames of an unknown type"},
}};

class Tally {
public:
    void add(Count what, std::uint64_t n = 1) { values_[static_cast<size_t>(what)] += n; }

    void add(const Tally& other) {
        for (size_t i = 0; i < values_.size(); ++i) {
            values_[i] += other.values_[i];
        }
    }

    [[nodiscard]] std::uint64_t get(Count what) const { return values_[static_cast<size_t>(what)]; }

    /// Those above zero.
    [[nodiscard]] Counters named() const {
        Counters out;
        for (size_t i = 0; i < values_.size(); ++i) {
            if (values_[i] != 0) {
                out.emplace(kCountKinds[i].name, values_[i]);
            }
        }
        return out;
    }

private:
    std::array<std::uint64_t, kCounts> values_{};
};

} // namespace reprise::trace
