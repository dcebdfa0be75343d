#pragma once
// Counters of the reader: an array while reading, names only when shown.

#include "core/trace/reassembly/options.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::trace {

/// What is counted; kNames says the name shown. Each is a packet unless its comment says otherwise.
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

class Tally {
public:
    void add(Count what, std::uint64_t n = 1) { values_[static_cast<size_t>(what)] += n; }

    void add(const Tally& other) {
        for (size_t i = 0; i < values_.size(); ++i) {
            values_[i] += other.values_[i];
        }
    }

    [[nodiscard]] std::uint64_t get(Count what) const { return values_[static_cast<size_t>(what)]; }

    /// Those above zero, by name.
    [[nodiscard]] Counters named() const;

private:
    std::array<std::uint64_t, static_cast<size_t>(Count::kEnd)> values_{};
};

} // namespace reprise::trace
