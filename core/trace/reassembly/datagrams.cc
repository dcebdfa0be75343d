#include "core/trace/reassembly/datagrams.hh"

#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/trace/reassembly/message.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/trace/reassembly/tunnels.hh"

namespace reprise::trace {
namespace {

Sorted sort_segment(const IpPacket& ip, const DnsPorts& ports, Tally& tally) {
    const auto tcp = decode_tcp(ip.payload);
    if (tcp && !ports.either(tcp->source_port, tcp->destination_port)) {
        tally.add(Count::kOtherPort);
        return Sorted::kNothing;
    }
    return Sorted::kAssembler;
}

Sorted sort_whole(const IpPacket& ip, Nanoseconds time, const DnsPorts& ports, Tally& tally,
                  Message& message) {
    if (ip.fragment) {
        return Sorted::kAssembler;
    }
    switch (ip.protocol) {
    case kProtocolUdp:
        return read_datagram(ip, time, ports, tally, message) ? Sorted::kMessage : Sorted::kNothing;
    case kProtocolTcp:
        return sort_segment(ip, ports, tally);
    default:
        tally.add(Count::kOtherProtocol);
        return Sorted::kNothing;
    }
}

Sorted sort_ip(IpPacket& ip, Nanoseconds time, const DnsPorts& ports, Tally& tally,
               Message& message) {
    const Tunnel tunnel = leave_tunnel(ip, ports, tally);
    if (tunnel == Tunnel::kUnreadable) {
        return Sorted::kNothing;
    }
    const Sorted sorted = sort_whole(ip, time, ports, tally, message);
    if (tunnel == Tunnel::kLeft && sorted != Sorted::kAssembler) {
        tally.add(Count::kTunnel);
    }
    return sorted;
}

/// Counts what decode_packet() found to be no IP.
void count_odd(Decoded decoded, const Packet& packet, Tally& tally) {
    if (decoded == Decoded::kBad) {
        tally.add(packet.wire_length > packet.bytes.size() ? Count::kCutPacket : Count::kBadPacket);
    } else {
        tally.add(decoded == Decoded::kNotIp ? Count::kNotIp : Count::kUnknownLink);
    }
}

} // namespace

bool decode_counted(const Packet& packet, IpPacket& ip, Tally& tally) {
    const Decoded decoded = decode_packet(packet, ip);
    if (decoded != Decoded::kIp) {
        count_odd(decoded, packet, tally);
    }
    return decoded == Decoded::kIp;
}

bool read_datagram(const IpPacket& ip, Nanoseconds time, const DnsPorts& ports, Tally& tally,
                   Message& message) {
    const auto udp = decode_udp(ip.payload);
    if (!udp) {
        tally.add(ip.cut ? Count::kCutPacket : Count::kBadPacket);
        return false;
    }
    if (!ports.either(udp->source_port, udp->destination_port)) {
        tally.add(Count::kOtherPort);
    } else if (udp->payload.size() < udp->size) {
        tally.add(ip.cut ? Count::kCutPacket : Count::kBadPacket);
    } else if (udp->size < kDnsHeaderSize) {
        tally.add(udp->size == 0 ? Count::kEmptyDatagram : Count::kShortMessage);
    } else {
        message = {.time = time,
                   .source = {.address = ip.source, .port = udp->source_port},
                   .destination = {.address = ip.destination, .port = udp->destination_port},
                   .response = (udp->payload[2] & 0x80U) != 0,
                   .bytes = udp->payload};
        return true;
    }
    return false;
}

Sorted sort_packet(const Packet& packet, const DnsPorts& ports, Tally& tally, Message& message) {
    IpPacket ip;
    if (!decode_counted(packet, ip, tally)) {
        return Sorted::kNothing;
    }
    const Sorted sorted = sort_ip(ip, packet.time, ports, tally, message);
    if (sorted == Sorted::kAssembler) {
        message.source.address = ip.source;
    }
    return sorted;
}

} // namespace reprise::trace
