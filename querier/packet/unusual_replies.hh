#pragma once
// Replies as whole frames, whatever their shape: fragments, IP options, IPv6 extension headers. Of
// plain ones the fast way needs only the beginning.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"
#include "querier/carrier/carrier.hh"

#include <cstddef>
#include <cstdint>
#include <netinet/in.h>
#include <vector>

namespace reprise::querier {

/// Pure: frames in, DNS messages out. UDP checksums are not looked at: a virtual interface hands
/// over packets that have none yet.
class UnusualReplies {
public:
    enum class Kind : std::uint8_t {
        kMessage,     ///< `reply` and `destination` are set
        kPending,     ///< a fragment; its datagram is not whole
        kUnreachable, ///< an ICMP error about one of our queries
        kBad          ///< malformed, or nobody's reply
    };

    struct Result {
        Kind kind = Kind::kBad;
        Endpoint destination;
        Reply reply; ///< bytes are good until the next call
    };

    /// `fragment_memory`: most bytes held of datagrams that are not whole.
    explicit UnusualReplies(const Servers& servers, size_t fragment_memory = kFragmentMemory)
        : servers_(servers), fragments_(fragment_memory, kFragmentTimeout, tally_) {}

    Result read(Bytes frame, Nanoseconds time) {
        trace::IpPacket ip;
        const trace::Packet packet{.link = trace::LinkType::kEthernet,
                                   .time = time,
                                   .bytes = frame,
                                   .wire_length = static_cast<std::uint32_t>(frame.size())};
        if (trace::decode_packet(packet, ip) != trace::Decoded::kIp || ip.cut) {
            return {};
        }
        if (ip.fragment && !fragments_.add(ip, time)) {
            return {.kind = Kind::kPending, .destination = {}, .reply = {}};
        }
        if (ip.protocol == IPPROTO_ICMP || ip.protocol == IPPROTO_ICMPV6) {
            return {.kind = Kind::kUnreachable, .destination = {}, .reply = {}};
        }
        return ip.protocol == trace::kProtocolUdp ? read_udp(ip, time) : Result{};
    }

    [[nodiscard]] size_t fragment_memory() const { return fragments_.memory(); }

private:
    static constexpr size_t kFragmentMemory = 16 << 20; ///< some thousand large replies
    /// As long as Linux waits for the rest of a datagram.
    static constexpr Nanoseconds kFragmentTimeout = 30 * kSecond;

    Result read_udp(const trace::IpPacket& ip, Nanoseconds time) {
        const auto udp = trace::decode_udp(ip.payload);
        const auto& server = servers_.of(ip.source.family);
        if (!udp || udp->payload.size() != udp->size ||
            server != Endpoint{.address = ip.source, .port = udp->source_port}) {
            return {};
        }
        message_.assign(udp->payload.begin(), udp->payload.end());
        return {.kind = Kind::kMessage,
                .destination = {.address = ip.destination, .port = udp->destination_port},
                .reply = {.bytes = message_, .size = message_.size(), .received = time}};
    }

    Servers servers_;
    trace::Tally tally_;
    trace::FragmentTable fragments_;
    std::vector<std::uint8_t> message_;
};

} // namespace reprise::querier
