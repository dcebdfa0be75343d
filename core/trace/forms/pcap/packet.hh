#pragma once
// IP packets from nothing: UDP datagrams and TCP segments over IPv4 and IPv6 with right checksums,
// no link header.

#include "core/base/address.hh"
#include "core/base/bytes.hh"

#include <cstdint>
#include <vector>

namespace reprise::trace {

inline constexpr std::uint8_t kTcpFin = 0x01;
inline constexpr std::uint8_t kTcpSyn = 0x02;
inline constexpr std::uint8_t kTcpPush = 0x08;
inline constexpr std::uint8_t kTcpAck = 0x10;

/// A TCP segment (RFC 9293) between addresses. A SYN carries a maximum segment size option.
struct TcpPacket {
    Endpoint from;
    Endpoint to; ///< same family as `from`
    std::uint32_t sequence = 0;
    std::uint32_t acknowledgement = 0;
    std::uint8_t flags = 0;
    Bytes payload;
};

/// Payload bytes that fit every kind of packet made here: the IPv4 limit less the longest headers.
inline constexpr size_t kMaxPayload = 65'535 - 20 - 24;

/// Replaces `out` by a whole IP packet. Both endpoints must be of one family. Throws Error for a
/// payload that does not fit.
void build_udp(std::vector<std::uint8_t>& out, const Endpoint& from, const Endpoint& to,
               Bytes payload);
void build_tcp(std::vector<std::uint8_t>& out, const TcpPacket& segment);

} // namespace reprise::trace
