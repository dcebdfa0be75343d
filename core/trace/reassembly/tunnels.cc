#include "core/base/bytes.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::trace {
namespace {

constexpr std::uint8_t kProtocolIpv4 = 4;
constexpr std::uint8_t kProtocolIpv6 = 41;
constexpr std::uint8_t kProtocolGre = 47;

constexpr std::uint16_t kTypeIpv4 = 0x0800;
constexpr std::uint16_t kTypeIpv6 = 0x86dd;
constexpr std::uint16_t kTypeEthernet = 0x6558;
constexpr std::uint16_t kTypeErspan2 = 0x88be; // and type I, which has no header
constexpr std::uint16_t kTypeErspan3 = 0x22eb;
constexpr std::uint16_t kTypeMpls = 0x8847;
constexpr std::uint16_t kTypeMplsMulticast = 0x8848;

/// Behind the tunnel's headers; no link where none follows that is read.
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
    case kTypeMpls:
    case kTypeMplsMulticast:
        return LinkType::kMpls;
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
std::optional<Inside> open_gre(Bytes payload) {
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

/// With VXLAN-GPE's flag a number says what follows; otherwise it is Ethernet.
std::optional<Inside> open_vxlan(Bytes payload) {
    constexpr unsigned kValid = 0x08; // the network's number is
    constexpr unsigned kNext = 0x04;
    constexpr unsigned kControl = 0x01;
    constexpr std::array<std::uint16_t, 6> kTypes{0,           kTypeIpv4, kTypeIpv6, kTypeEthernet,
                                                  0 /* NSH */, kTypeMpls};
    Cursor in(payload);
    const unsigned flags = in.u8();
    in.skip(2);
    const unsigned next = in.u8();
    in.skip(4);
    if ((flags & kValid) == 0 || (flags & kControl) != 0) {
        return rest(in, std::nullopt);
    }
    if ((flags & kNext) == 0) {
        return rest(in, LinkType::kEthernet);
    }
    return rest(in, next < kTypes.size() ? link_of(kTypes.at(next)) : std::nullopt);
}

/// Nothing where it is the tunnel's own traffic.
std::optional<Inside> open_gtp(Bytes payload) {
    constexpr unsigned kVersion1 = 0x30; // and not charging's protocol, GTP'
    constexpr unsigned kOptional = 0x07; // any of three fields: all are there
    constexpr unsigned kPacket = 255;
    Cursor in(payload);
    const unsigned first = in.u8();
    const unsigned type = in.u8();
    if (in.ok() && ((first & 0xf0U) != kVersion1 || type != kPacket)) {
        return std::nullopt;
    }
    in.skip(6);
    if ((first & kOptional) != 0) {
        in.skip(3);
        while (in.u8() != 0) { // an extension header: its length in words, then the next one's type
            const size_t words = in.u8();
            in.skip(words * 4 - 2);
        }
    }
    Cursor ahead = in;
    const unsigned version = ahead.u8() >> 4U;
    const bool ip = version == 4 || version == 6 || !ahead.ok();
    return rest(in, ip ? std::optional(LinkType::kRaw) : std::nullopt);
}

std::optional<Inside> open_geneve(Bytes payload) {
    Cursor in(payload);
    const unsigned first = in.u8();
    in.skip(1);
    const std::uint16_t type = in.u16be();
    in.skip(4 + (first & 0x3fU) * 4UL);
    return rest(in, first >> 6U == 0 ? link_of(type) : std::nullopt);
}

std::optional<Inside> open_mpls(Bytes payload) {
    Cursor in(payload);
    return rest(in, LinkType::kMpls);
}

using Open = std::optional<Inside> (*)(Bytes);

/// What opens tunnels to a port; null if no tunnel uses it.
Open opener(std::uint16_t port) {
    switch (port) {
    case 2152:
        return open_gtp;
    case 4754:
        return open_gre;
    case 4789:
    case 4790: // VXLAN-GPE
    case 8472: // VXLAN on Linux, before it had a number of its own
        return open_vxlan;
    case 6081:
        return open_geneve;
    case 6635:
        return open_mpls;
    default:
        return nullptr;
    }
}

std::optional<Inside> open_udp(const IpPacket& ip, const DnsPorts& ports) {
    Cursor in(ip.payload);
    const std::uint16_t source = in.u16be();
    const std::uint16_t port = in.u16be();
    const Open open = opener(port);
    if (open == nullptr || ports.either(source, port)) {
        return std::nullopt;
    }
    const auto udp = decode_udp(ip.payload);
    return udp ? open(udp->payload) : Inside{};
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
    IpPacket inner;
    if (inside->whole && inside->link) {
        const auto wire = static_cast<std::uint32_t>(inside->bytes.size() + (ip.cut ? 1 : 0));
        const Packet packet{.link = *inside->link, .bytes = inside->bytes, .wire_length = wire};
        if (!decode_counted(packet, inner, tally)) {
            return Tunnel::kUnreadable;
        }
    }
    if (!inside->whole || !inside->link || in_tunnel(inner, ports)) {
        tally.add(inside->whole ? Count::kTunnelUnread
                  : ip.cut      ? Count::kCutPacket
                                : Count::kBadPacket);
        return Tunnel::kUnreadable;
    }
    ip = inner;
    return Tunnel::kLeft;
}

} // namespace reprise::trace
