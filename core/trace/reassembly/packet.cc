#include "core/trace/reassembly/packet.hh"

#include "core/base/bytes.hh"
#include "core/dns/message.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::trace {

namespace {

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

namespace {

bool plausible_flags(const DnsHeader& header) {
    const std::uint8_t opcode = header.opcode();
    const bool known_opcode = opcode <= 2 || opcode == 4 || opcode == 5;
    const bool reserved_bit = (header.flags & 0x0040U) != 0;
    return known_opcode && !reserved_bit && (header.is_response() || header.rcode() == 0);
}

/// Counts of real messages: one question, except that the later messages of a zone transfer may
/// have none.
bool plausible_counts(const DnsHeader& header, size_t size) {
    // Every record takes at least 11 bytes.
    const size_t records = size_t{header.answers} + header.authorities + header.additionals;
    if (header.questions > 1 || records * 11 > size - kDnsHeaderSize) {
        return false;
    }
    if (header.is_response()) {
        return header.questions == 1 || header.answers > 0;
    }
    return header.questions == 1 && (header.opcode() == 5 || header.answers <= 1) &&
           header.additionals <= 4;
}

bool plausible_class(std::uint16_t dns_class) {
    return dns_class == 1 || dns_class == 3 || dns_class == 4 || dns_class >= 254;
}

/// Name, type and class; compression only where `pointers` (a record's owner).
bool plausible_owner(Cursor& in, bool pointers) {
    size_t size = 0;
    for (std::uint8_t length = in.u8(); length != 0 && in.ok(); length = in.u8()) {
        size += length + 1U;
        if (length >= 0xc0 && pointers) {
            in.skip(1);
            break;
        }
        if (length > 63 || size > 254) {
            return false;
        }
        in.skip(length);
    }
    const std::uint16_t type = in.u16be();
    const std::uint16_t dns_class = in.u16be();
    return !in.ok() || (type != 0 && plausible_class(dns_class));
}

} // namespace

Plausible begins_message(Bytes stream) {
    Cursor prefix(stream);
    const size_t size = prefix.u16be();
    if (!prefix.ok()) {
        return Plausible::kNeedMore;
    }
    if (size < kDnsHeaderSize + 5) {
        return Plausible::kNo;
    }
    const Bytes message = prefix.take(std::min(size, prefix.left()));
    const auto header = parse_header(message);
    if (!header) {
        return Plausible::kNeedMore;
    }
    if (!plausible_flags(*header) || !plausible_counts(*header, size)) {
        return Plausible::kNo;
    }
    Cursor in(message);
    in.skip(kDnsHeaderSize);
    if (!plausible_owner(in, header->questions == 0)) {
        return Plausible::kNo;
    }
    if (in.ok()) {
        return Plausible::kYes;
    }
    return message.size() < size ? Plausible::kNeedMore : Plausible::kNo;
}

} // namespace reprise::trace
