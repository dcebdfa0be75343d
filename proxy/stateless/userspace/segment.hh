#pragma once
// TCP segments and UDP replies in IP packets: pure, bytes in and bytes out.

#include "core/base/address.hh"
#include "core/base/bytes.hh"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace reprise::proxy::stateless {

enum TcpFlag : std::uint8_t { kFin = 1, kSyn = 2, kRst = 4, kPush = 8, kAck = 16 };

/// Both ends of a TCP connection.
struct Connection {
    Endpoint client;
    Endpoint server;

    auto operator<=>(const Connection&) const = default;
};

/// From a client.
struct Segment {
    Connection connection;
    std::uint32_t seq = 0;
    std::uint32_t ack = 0;
    std::uint8_t flags = 0;
    std::uint16_t window = 0;
    std::uint16_t mss = 0; ///< its option; 0 for none
    Bytes data;            ///< borrowed from the packet

    [[nodiscard]] bool has(TcpFlag flag) const { return (flags & flag) != 0; }

    /// The sequence number behind it.
    [[nodiscard]] std::uint32_t end() const {
        return seq + static_cast<std::uint32_t>(data.size()) + (has(kSyn) ? 1U : 0U) +
               (has(kFin) ? 1U : 0U);
    }
};

/// To a client.
struct Reply {
    Connection connection;
    std::uint32_t seq = 0;
    std::uint32_t ack = 0;
    std::uint8_t flags = kAck;
    std::uint16_t mss = 0; ///< option; 0 for none
    Bytes data{};
};

/// The transport of an IP packet; 0 where its headers up to there contradict the packet.
std::uint8_t protocol_of(Bytes packet);

/// The segment of an IPv4 or IPv6 packet; nothing where a length, a checksum or the flags
/// contradict the packet, or where it is a fragment. Trusts none of its fields.
std::optional<Segment> read_segment(Bytes packet);

/// What IP and TCP headers with the MSS option take.
inline constexpr size_t kMostHeaders = 40 + 24;

/// Writes the packet of a reply, with TTL 255 and window 65,535, into `out`, which has room for
/// kMostHeaders and the data. `id`: IPv4's. Returns its size.
size_t write_segment(std::span<std::uint8_t> out, const Reply& reply, std::uint16_t id);

// Forced truncation: long replies over UDP become truncated ones, so that their clients come over
// TCP.

/// Cuts an IP packet with a UDP reply of more than `limit` bytes, in place, to its header with TC,
/// its question and its OPT; the packet that is left, with its checksums. Of a reply that the
/// server's host has cut into fragments of IPv6 the first becomes that packet, and of the others
/// nothing is left. Any other packet stays as it is.
std::span<std::uint8_t> truncate_reply(std::span<std::uint8_t> packet, size_t limit);

// Initial sequence numbers that remember the client's MSS.
//
// Problem. The answer is cut into segments of at most the client's MSS, which only its SYN tells,
// and nothing is kept of a SYN.
//
// Idea. What the front sends as its sequence number comes back as the acknowledgement of every
// segment. The number of the first byte is a keyed hash of both endpoints in the lower 30 bits and
// one of four sizes in the upper two. An acknowledgement is this number plus the bytes answered so
// far, so as long as those are less than 2^30 the difference to the hash has the size in its upper
// two bits. No handshake is proven that way: any acknowledgement yields some size.

class SequenceNumbers {
public:
    /// `most`: the largest packet that the interface carries, bytes.
    SequenceNumbers(std::uint64_t secret, size_t most) : secret_(secret), most_(most) {}

    /// Of the SYN/ACK to a client whose SYN has this MSS; 0 where it had none.
    [[nodiscard]] std::uint32_t first(const Connection& connection, std::uint16_t mss) const;

    /// The largest segment for a client, from what it acknowledges: 536, 1220, 1380 or 1460 bytes
    /// (IPv6: 1440), the next below its MSS; 536 also below that.
    [[nodiscard]] std::uint16_t mss(const Connection& connection, std::uint32_t ack) const;

    /// What the front itself announces.
    [[nodiscard]] std::uint16_t own_mss(const IpAddress& address) const;

private:
    [[nodiscard]] std::uint32_t hash(const Connection& connection) const;

    std::uint64_t secret_;
    size_t most_;
};

} // namespace reprise::proxy::stateless

template <> struct std::hash<reprise::proxy::stateless::Connection> {
    size_t operator()(const reprise::proxy::stateless::Connection& one) const noexcept {
        const std::hash<reprise::Endpoint> of;
        return of(one.client) * 31 + of(one.server);
    }
};
