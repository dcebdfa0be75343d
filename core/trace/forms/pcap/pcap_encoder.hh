#pragma once
// Queries as a capture: pcap with nanosecond times (magic a1b23c4d) and raw IP packets
// (LINKTYPE_RAW, 101), as a tap in front of the server would have seen the clients' side.
//
// A query over UDP is a datagram. A connection's first query is preceded by a handshake, each query
// is a segment that the server acknowledges, and a close is the client's FIN and all that follows;
// every packet has the time of its query. So reading the capture back gives the same queries,
// times, addresses, ports and connections. A query over TCP without a connection has one of its
// own, which ends behind it. Where a connection's ports are in use by another one, a SYN with a
// fresh initial sequence number begins it, which is how readers tell connections apart. The other
// one ends there: a capture has no place for two connections with the same ends at a time. If it
// goes on after all, it is split, and a close of it while it is displaced is left out; both are
// counted.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::trace {

/// Appends an IP packet, of which the last `missing` bytes were not captured, behind its header.
/// Throws Error for times that a capture has no place for.
void append_packet(std::string& out, Nanoseconds time, Bytes packet, std::uint32_t missing = 0);

// IP packets from nothing: UDP datagrams and TCP segments over IPv4 and IPv6 with right checksums,
// no link header.

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

/// Both ends of a TCP connection, with the sequence number of each end's next byte.
struct TcpEnds {
    std::array<Endpoint, 2> ends;
    std::array<std::uint32_t, 2> next{};

    /// The next segment of end `from`. A SYN or FIN takes a sequence number.
    TcpPacket segment(size_t from, std::uint8_t flags, Bytes payload = {});
};

} // namespace reprise::trace
