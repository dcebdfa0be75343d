#pragma once
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

#include "core/base/address.hh"
#include "proxy/stateless/userspace/segment.hh"

#include <cstddef>
#include <cstdint>

namespace reprise::proxy::stateless {

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
