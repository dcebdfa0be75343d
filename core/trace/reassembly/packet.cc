#include "core/trace/reassembly/packet.hh"

#include "core/base/bytes.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::trace {

namespace {

constexpr std::uint16_t kEtherIpv4 = 0x0800;
constexpr std::uint16_t kEtherIpv6 = 0x86dd;

bool is_ip(std::uint16_t ether_type) {
    return ether_type == kEtherIpv4 || ether_type == kEtherIpv6;
}

bool is_vlan_tag(std::uint16_t ether_type) {
    // 802.1Q, 802.1ad (QinQ), and the numbers used for QinQ before the standard.
    return ether_type == 0x8100 || ether_type == 0x88a8 || ether_type == 0x9100 ||
           ether_type == 0x9200;
}

std::uint16_t skip_vlan_tags(Cursor& in, std::uint16_t ether_type) {
    constexpr int kMaxVlanTags = 8;
    for (int depth = 0; is_vlan_tag(ether_type) && depth < kMaxVlanTags; ++depth) {
        in.skip(2);
        ether_type = in.u16be();
    }
    return ether_type;
}

/// The destination, the source and the type of an Ethernet frame, and its VLAN tags.
std::uint16_t skip_ethernet(Cursor& in) {
    in.skip(12);
    return skip_vlan_tags(in, in.u16be());
}

/// A stack of labels does not say what follows. IP begins with its version, and an Ethernet
/// pseudowire with a control word that begins with 0, or none (RFC 4385, 4448, 4928); 1 is the
/// pseudowire's own traffic.
Decoded behind_labels(Cursor& in) {
    Cursor ahead = in;
    const std::uint16_t first = ahead.u16be();
    switch (first >> 12U) {
    case 4:
    case 6:
        return Decoded::kIp;
    case 1:
        return Decoded::kNotIp;
    default:
        break;
    }
    const bool control_word = first == 0;
    in.skip(control_word ? 4 : 0);
    if (is_ip(skip_ethernet(in))) {
        return Decoded::kIp;
    }
    return control_word ? Decoded::kNotIp : Decoded::kMplsUnread;
}

/// RFC 3032.
Decoded skip_labels(Cursor& in) {
    constexpr int kMaxLabels = 16;
    constexpr std::uint32_t kLast = 0x100;
    for (int depth = 0; depth < kMaxLabels; ++depth) {
        if ((in.u32be() & kLast) != 0) {
            return behind_labels(in);
        }
    }
    return Decoded::kMplsUnread;
}

/// A session (RFC 2516): its header, then the protocol of PPP. Control packets of PPP are not IP.
Decoded skip_pppoe(Cursor& in) {
    in.skip(6);
    switch (in.u16be()) {
    case 0x0021:
    case 0x0057:
        return Decoded::kIp;
    case 0x0281:
        return skip_labels(in);
    default:
        return Decoded::kNotIp;
    }
}

/// Skips what may come between an EtherType and the network header.
Decoded skip_shims(Cursor& in, std::uint16_t ether_type) {
    if (is_ip(ether_type)) {
        return Decoded::kIp;
    }
    switch (skip_vlan_tags(in, ether_type)) {
    case kEtherIpv4:
    case kEtherIpv6:
        return Decoded::kIp;
    case 0x8847:
    case 0x8848:
        return skip_labels(in);
    case 0x8864:
        return skip_pppoe(in);
    default:
        return Decoded::kNotIp;
    }
}

/// AF_INET is 2 everywhere; AF_INET6 differs on Linux, NetBSD and OpenBSD, FreeBSD, Darwin. Some
/// programs write an EtherType.
bool is_ip_family(std::uint32_t family) {
    return family == 2 || family == 10 || family == 24 || family == 28 || family == 30 ||
           family == kEtherIpv4 || family == kEtherIpv6;
}

/// Of 4 bytes in either byte order, or (IRIX) of 2 with 2 of padding.
Decoded skip_family(Cursor& in) {
    const std::uint32_t family = in.u32be();
    const bool ip = is_ip_family(family) || is_ip_family(__builtin_bswap32(family)) ||
                    is_ip_family(family >> 16U);
    return ip ? Decoded::kIp : Decoded::kNotIp;
}

/// Leaves the cursor at the IP header if it returns kIp, by what the link layer says: the header's
/// version was not checked. If the cursor overran, the frame is cut or damaged, whatever is
/// returned.
Decoded skip_link(LinkType link, Cursor& in) {
    switch (link) {
    case LinkType::kEthernet:
        in.skip(12);
        return skip_shims(in, in.u16be());
    case LinkType::kSll:
        in.skip(14);
        return skip_shims(in, in.u16be());
    case LinkType::kSll2: {
        const std::uint16_t ether_type = in.u16be();
        in.skip(18);
        return skip_shims(in, ether_type);
    }
    case LinkType::kNull:
        return skip_family(in);
    case LinkType::kRaw:
        return Decoded::kIp; // decode_network goes by the version
    case LinkType::kMpls:
        return skip_labels(in);
    case LinkType::kUnknown:
        break;
    }
    return Decoded::kUnknownLink;
}

/// Cuts `captured` to the length the header states. A length of 0 is a segment the card was to cut
/// up (TSO): all of it counts.
Bytes trim(Bytes captured, size_t stated, bool& cut) {
    cut = stated > captured.size();
    return captured.first(stated == 0 || cut ? captured.size() : stated);
}

Decoded decode_ipv4(Bytes data, IpPacket& ip) {
    if (data.size() < 20) {
        return Decoded::kBad;
    }
    const size_t header = (data[0] & 0xfU) * 4UL;
    Cursor in(data);
    in.skip(2);
    const std::uint16_t total = in.u16be();
    ip.fragment_id = in.u16be();
    const std::uint16_t fragment = in.u16be();
    in.skip(1);
    ip.protocol = in.u8();
    const Bytes packet = trim(data, total, ip.cut);
    if (header < 20 || header > packet.size()) {
        return Decoded::kBad;
    }
    ip.source = IpAddress::v4(&data[12]);
    ip.destination = IpAddress::v4(&data[16]);
    ip.more = (fragment & 0x2000U) != 0;
    ip.offset = static_cast<std::uint16_t>((fragment & 0x1fffU) * 8U);
    ip.fragment = ip.more || ip.offset != 0;
    ip.payload = packet.subspan(header);
    return Decoded::kIp;
}

Decoded decode_ipv6(Bytes data, IpPacket& ip) {
    if (data.size() < 40) {
        return Decoded::kBad;
    }
    Cursor in(data);
    in.skip(4);
    const std::uint16_t size = in.u16be();
    ip.protocol = in.u8();
    ip.source = IpAddress::v6(&data[8]);
    ip.destination = IpAddress::v6(&data[24]);
    ip.fragment = false;
    ip.payload = trim(data.subspan(40), size, ip.cut);
    return skip_extensions(ip) ? Decoded::kIp : Decoded::kBad;
}

Decoded decode_network(Bytes data, IpPacket& ip) {
    switch (data.empty() ? 0 : data[0] >> 4U) {
    case 4:
        return decode_ipv4(data, ip);
    case 6:
        return decode_ipv6(data, ip);
    default:
        return Decoded::kBad;
    }
}

bool is_extension(std::uint8_t protocol) {
    // Hop-by-hop, routing, authentication, destination options, mobility, HIP, shim6.
    return protocol == 0 || protocol == 43 || protocol == 51 || protocol == 60 || protocol == 135 ||
           protocol == 139 || protocol == 140;
}

constexpr std::uint8_t kAuthentication = 51;
constexpr std::uint8_t kFragment = 44;

bool skip_extension(IpPacket& ip) {
    if (ip.payload.size() < 2) {
        return false;
    }
    const size_t units = ip.payload[1];
    // RFC 4302 section 2.2: the authentication header counts 4-byte units less 2, the others 8-byte
    // units less 1.
    const size_t size = ip.protocol == kAuthentication ? (units + 2) * 4 : (units + 1) * 8;
    if (size > ip.payload.size()) {
        return false;
    }
    ip.protocol = ip.payload[0];
    ip.payload = ip.payload.subspan(size);
    return true;
}

bool read_fragment_header(IpPacket& ip) {
    Cursor in(ip.payload);
    ip.protocol = in.u8();
    in.skip(1);
    const std::uint16_t fragment = in.u16be();
    ip.fragment_id = in.u32be();
    ip.more = (fragment & 1U) != 0;
    ip.offset = fragment & 0xfff8U;
    // Alone in its packet it is an atomic fragment (RFC 6946): nothing to wait for.
    ip.fragment = ip.more || ip.offset != 0;
    ip.payload = in.take(in.left());
    return in.ok();
}

} // namespace

bool skip_extensions(IpPacket& ip) {
    while (is_extension(ip.protocol)) {
        if (!skip_extension(ip)) {
            return false;
        }
    }
    if (ip.protocol != kFragment) {
        return true;
    }
    if (!read_fragment_header(ip)) {
        return false;
    }
    return ip.fragment || skip_extensions(ip);
}

std::optional<LinkType> link_type(int number) {
    using enum LinkType;

    struct Number {
        int number;
        LinkType link;
    };

    // Raw IP is 12 or 14 by system, 101 in files; 228 and 229 name the version.
    constexpr std::array<Number, 11> kNumbers{{
        {0, kNull},
        {1, kEthernet},
        {12, kRaw},
        {14, kRaw},
        {101, kRaw},
        {108, kNull},
        {113, kSll},
        {219, kMpls},
        {228, kRaw},
        {229, kRaw},
        {276, kSll2},
    }};
    const auto* const found = std::ranges::find(kNumbers, number, &Number::number);
    return found != kNumbers.end() ? std::optional(found->link) : std::nullopt;
}

Decoded decode_packet(const Packet& packet, IpPacket& ip) {
    Cursor in(packet.bytes);
    const Decoded found = skip_link(packet.link, in);
    if (!in.ok()) {
        return Decoded::kBad;
    }
    return found == Decoded::kIp ? decode_network(packet.bytes.subspan(in.position()), ip) : found;
}

Bytes network_layer(const Packet& packet) {
    Cursor in(packet.bytes);
    const bool ip = skip_link(packet.link, in) == Decoded::kIp && in.ok();
    return ip ? packet.bytes.subspan(in.position()) : Bytes{};
}

std::optional<UdpDatagram> decode_udp(Bytes ip_payload) {
    Cursor in(ip_payload);
    UdpDatagram udp;
    udp.source_port = in.u16be();
    udp.destination_port = in.u16be();
    const std::uint16_t size = in.u16be();
    in.skip(2);
    if (!in.ok() || size < 8) {
        return std::nullopt;
    }
    udp.size = static_cast<std::uint16_t>(size - 8);
    udp.payload = in.take(std::min<size_t>(udp.size, in.left()));
    return udp;
}

std::optional<TcpSegment> decode_tcp(Bytes ip_payload) {
    Cursor in(ip_payload);
    TcpSegment tcp;
    tcp.source_port = in.u16be();
    tcp.destination_port = in.u16be();
    tcp.sequence = in.u32be();
    tcp.acknowledgement = in.u32be();
    const size_t header = (in.u8() >> 4U) * 4UL;
    const std::uint8_t flags = in.u8();
    if (!in.ok() || header < 20 || header > ip_payload.size()) {
        return std::nullopt;
    }
    tcp.fin = (flags & 0x01U) != 0;
    tcp.syn = (flags & 0x02U) != 0;
    tcp.rst = (flags & 0x04U) != 0;
    tcp.ack = (flags & 0x10U) != 0;
    tcp.payload = ip_payload.subspan(header);
    return tcp;
}

} // namespace reprise::trace
