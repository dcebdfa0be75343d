#include "core/trace/reassembly/tunnels.hh"

#include "core/base/bytes.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"

#include <cstdint>
#include <optional>

namespace reprise::trace {
namespace {

constexpr std::uint8_t kProtocolIpv4 = 4;
constexpr std::uint8_t kProtocolIpv6 = 41;
constexpr std::uint8_t kProtocolGre = 47;

constexpr std::uint16_t kPortVxlan = 4789;
constexpr std::uint16_t kPortVxlanOfLinux = 8472; // before there was a number of its own
constexpr std::uint16_t kPortGeneve = 6081;

constexpr std::uint16_t kTypeIpv4 = 0x0800;
constexpr std::uint16_t kTypeIpv6 = 0x86dd;
constexpr std::uint16_t kTypeEthernet = 0x6558;
constexpr std::uint16_t kTypeErspan2 = 0x88be; // and type I, which has no header
constexpr std::uint16_t kTypeErspan3 = 0x22eb;

/// Behind the tunnel's headers; no link where neither IP nor Ethernet follows.
struct Inside {
    std::optional<LinkType> link;
    bool whole = false; ///< the headers are
    Bytes bytes;
};

std::optional<LinkType> link_of(std::uint16_t type) {
    switch (type) {
    case kTypeIpv4:
    case kTypeIpv6:
        return LinkType::kRaw;
    case kTypeEthernet:
        return LinkType::kEthernet;
    default:
        return std::nullopt;
    }
}

Inside rest(Cursor& in, std::optional<LinkType> link) {
    return {.link = link, .whole = in.ok(), .bytes = in.take(in.left())};
}

/// The switch's header before the mirrored frame. Type I, in GRE without sequence numbers, has
/// none; type III says in its last bit whether 8 bytes more follow.
void skip_erspan(Cursor& in, std::uint16_t type, bool numbered) {
    if (type == kTypeErspan3) {
        in.skip(11);
        in.skip((in.u8() & 1U) != 0 ? 8 : 0);
    } else if (numbered) {
        in.skip(8);
    }
}

/// RFC 2784 and 2890. Of version 1 (PPTP) nothing is read.
Inside open_gre(Bytes payload) {
    constexpr unsigned kChecksum = 0x8000;
    constexpr unsigned kKey = 0x2000;
    constexpr unsigned kSequence = 0x1000;
    constexpr unsigned kRoutingOrVersion = 0x4007;
    Cursor in(payload);
    const unsigned flags = in.u16be();
    const std::uint16_t type = in.u16be();
    if ((flags & kRoutingOrVersion) != 0) {
        return rest(in, std::nullopt);
    }
    for (const unsigned field : {kChecksum, kKey, kSequence}) {
        in.skip((flags & field) != 0 ? 4 : 0);
    }
    if (type == kTypeErspan2 || type == kTypeErspan3) {
        skip_erspan(in, type, (flags & kSequence) != 0);
        return rest(in, LinkType::kEthernet);
    }
    return rest(in, link_of(type));
}

Inside open_vxlan(Bytes payload) {
    constexpr unsigned kValid = 0x08; // the network's number is
    Cursor in(payload);
    const unsigned flags = in.u8();
    in.skip(7);
    return rest(in, flags == kValid ? std::optional(LinkType::kEthernet) : std::nullopt);
}

Inside open_geneve(Bytes payload) {
    Cursor in(payload);
    const unsigned first = in.u8();
    in.skip(1);
    const std::uint16_t type = in.u16be();
    in.skip(4 + (first & 0x3fU) * 4UL);
    return rest(in, first >> 6U == 0 ? link_of(type) : std::nullopt);
}

/// The tunnel's port; 0 where the datagram is no tunnel's.
std::uint16_t tunnel_port(const IpPacket& ip, const DnsPorts& ports) {
    Cursor in(ip.payload);
    const std::uint16_t source = in.u16be();
    const std::uint16_t port = in.u16be();
    const bool known = port == kPortVxlan || port == kPortVxlanOfLinux || port == kPortGeneve;
    return known && !ports.either(source, port) ? port : std::uint16_t{0};
}

std::optional<Inside> open_udp(const IpPacket& ip, const DnsPorts& ports) {
    const std::uint16_t port = tunnel_port(ip, ports);
    if (port == 0) {
        return std::nullopt;
    }
    const auto udp = decode_udp(ip.payload);
    if (!udp) {
        return Inside{};
    }
    return port == kPortGeneve ? open_geneve(udp->payload) : open_vxlan(udp->payload);
}

/// Nothing where the packet is no tunnel's.
std::optional<Inside> open_outer(const IpPacket& ip, const DnsPorts& ports) {
    if (ip.fragment) {
        return std::nullopt;
    }
    switch (ip.protocol) {
    case kProtocolUdp:
        return open_udp(ip, ports);
    case kProtocolIpv4:
    case kProtocolIpv6:
        return Inside{.link = LinkType::kRaw, .whole = true, .bytes = ip.payload};
    case kProtocolGre:
        return open_gre(ip.payload);
    default:
        return std::nullopt;
    }
}

} // namespace

bool in_tunnel(const IpPacket& ip, const DnsPorts& ports) {
    return open_outer(ip, ports).has_value();
}

Tunnel leave_tunnel(IpPacket& ip, const DnsPorts& ports, Tally& tally) {
    const auto inside = open_outer(ip, ports);
    if (!inside) {
        return Tunnel::kNone;
    }
    const bool cut = ip.cut;
    const auto unreadable = [&](Count why) {
        tally.add(why);
        return Tunnel::kUnreadable;
    };
    if (!inside->whole) {
        return unreadable(cut ? Count::kCutPacket : Count::kBadPacket);
    }
    if (!inside->link) {
        return unreadable(Count::kTunnelUnread);
    }
    const Packet packet{.link = *inside->link, .bytes = inside->bytes};
    IpPacket inner;
    switch (decode_packet(packet, inner)) {
    case Decoded::kIp:
        break;
    case Decoded::kBad:
        return unreadable(cut ? Count::kCutPacket : Count::kBadPacket);
    default:
        return unreadable(Count::kNotIp);
    }
    if (in_tunnel(inner, ports)) {
        return unreadable(Count::kTunnelUnread);
    }
    ip = inner;
    return Tunnel::kLeft;
}

} // namespace reprise::trace
