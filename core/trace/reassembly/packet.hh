#pragma once
// One captured packet, and its pure decoding down to the IP payload. Both backends yield the same
// raw link frames, so every link type is understood here and nowhere else.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace reprise::trace {

/// What a captured frame begins with.
enum class LinkType : std::uint8_t {
    kEthernet,
    kRaw,     ///< IPv4 or IPv6, told apart by the version nibble
    kSll,     ///< Linux cooked capture
    kSll2,    ///< Linux cooked capture, version 2
    kNull,    ///< 4 bytes of address family in either byte order (BSD loopback, OpenBSD LOOP)
    kMpls,    ///< a stack of labels
    kUnknown, ///< not read; one interface of several in a pcapng file
};

/// The link type of a capture file's number (https://www.tcpdump.org/linktypes.html), if it is
/// read.
std::optional<LinkType> link_type(int number);

/// One frame as captured. `bytes` borrows from the source until its next packet.
struct Packet {
    LinkType link = LinkType::kEthernet;
    Nanoseconds time = 0; ///< since the epoch
    Bytes bytes;
    std::uint32_t wire_length = 0; ///< as sent; more than bytes.size() where the capture snapped it
};

/// An IPv4 or IPv6 packet, or one fragment of it. Extension headers are skipped.
struct IpPacket {
    IpAddress source;
    IpAddress destination;
    std::uint8_t protocol = 0; ///< of `payload`
    Bytes payload;
    bool cut = false;         ///< the capture holds less than the header's length says
    bool fragment = false;    ///< the three fields below are set
    bool more = false;        ///< another fragment follows this one
    std::uint16_t offset = 0; ///< bytes
    std::uint32_t fragment_id = 0;
};

enum class Decoded : std::uint8_t { kIp, kNotIp, kBad, kUnknownLink, kMplsUnread };

/// Link and network layer: Ethernet with any depth of VLAN tags, PPPoE, MPLS, cooked, raw,
/// loopback; IPv4 options; IPv6 extension headers. Padding after the IP packet is cut off.
Decoded decode_packet(const Packet& packet, IpPacket& ip);

/// The packet from its IP header on, padding included; empty where decode_packet() finds no IP.
Bytes network_layer(const Packet& packet);

/// Skips IPv6 extension headers (RFC 8200 section 4) at the front of `ip.payload`; false where they
/// are malformed.
bool skip_extensions(IpPacket& ip);

inline constexpr std::uint8_t kProtocolTcp = 6;
inline constexpr std::uint8_t kProtocolUdp = 17;

struct UdpDatagram {
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = 0;
    std::uint16_t size = 0; ///< of the payload as sent
    Bytes payload;          ///< shorter than `size` where the capture was snapped
};

/// Nothing where the header is incomplete or its length field is below 8.
std::optional<UdpDatagram> decode_udp(Bytes ip_payload);

/// Both ends of a connection, the smaller first, so that the two directions meet.
using Ends = std::array<Endpoint, 2>;

struct EndsHash {
    size_t operator()(const Ends& ends) const noexcept {
        const std::hash<Endpoint> hash;
        return hash(ends[0]) * 31 + hash(ends[1]);
    }
};

struct TcpSegment {
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = 0;
    std::uint32_t sequence = 0;
    std::uint32_t acknowledgement = 0;
    bool fin = false;
    bool syn = false;
    bool rst = false;
    bool ack = false;
    Bytes payload;
};

/// Nothing where the header is incomplete or malformed.
std::optional<TcpSegment> decode_tcp(Bytes ip_payload);

} // namespace reprise::trace
