#include "querier/packet/unusual_replies.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/packet.hh"

#include <cstddef>
#include <cstdint>
#include <netinet/in.h>

namespace reprise::querier {
namespace {

/// As long as Linux waits for the rest of a datagram.
constexpr Nanoseconds kFragmentTimeout = 30 * kSecond;

} // namespace

UnusualReplies::UnusualReplies(const Servers& servers, size_t fragment_memory)
    : servers_(servers), fragments_(fragment_memory, kFragmentTimeout, tally_) {}

UnusualReplies::Result UnusualReplies::read(Bytes frame, Nanoseconds time) {
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

UnusualReplies::Result UnusualReplies::read_udp(const trace::IpPacket& ip, Nanoseconds time) {
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

} // namespace reprise::querier
