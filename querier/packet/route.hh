#pragma once
// Queries as Ethernet frames, and where these go: the outgoing interface, its hardware address,
// and the next hop's.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"
#include "core/base/clock.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace reprise::querier {

using MacAddress = std::array<std::uint8_t, 6>;

inline constexpr size_t kEthernetHeader = 14;
inline constexpr size_t kMostHeaders = kEthernetHeader + 40 + 8;
/// Bytes of the longest frame to be sent: a chunk of an XDP socket's memory.
inline constexpr size_t kMostFrame = 2048;

/// Where frames to one server come from and go to, below IP.
struct MacAddresses {
    MacAddress source{};
    MacAddress next_hop{};
};

/// Makes the frames of queries to one server. What all of them share, checksums included, is worked
/// out once.
class FrameTemplate {
public:
    FrameTemplate(const MacAddresses& macs, const Endpoint& server);

    /// Bytes before the DNS message.
    [[nodiscard]] size_t headers() const { return headers_; }

    /// Writes the frame of a query from `source`, which is of the server's family, into `out`,
    /// which has room for headers() and the query; the query has at most 65,507 bytes. `id` is
    /// IPv4's and has no meaning, as the frames forbid fragments. Returns the frame's size.
    size_t write(std::span<std::uint8_t> out, const Endpoint& source, Bytes query,
                 std::uint16_t id) const;

private:
    std::array<std::uint8_t, kMostHeaders> bytes_{};
    bool v4_;
    size_t headers_;
    Checksum ip_sum_;  ///< IPv4: over the header as it is in bytes_
    Checksum udp_sum_; ///< pseudo header without source and size; server's port
};

struct PacketRoute {
    std::uint32_t interface = 0; ///< index
    std::string name;            ///< of the interface
    std::uint32_t mtu = 0;       ///< bytes of an IP packet that fits the interface and kMostFrame
    MacAddresses macs;
};

/// Asks the kernel, which asks the network for the next hop's hardware address where it does not
/// know it; waits for that up to `patience`. Throws Error with the hint where the server is not
/// reached through an Ethernet interface, or where this host would forward or answer the replies.
PacketRoute find_packet_route(const IpAddress& server, Nanoseconds patience);

/// Whether the interface is up and connected now.
bool has_carrier(const PacketRoute& route);

/// Waits up to `patience` until the interface carries packets again: some drivers restart their
/// link when an XDP program is attached. Throws Error.
void await_carrier(const PacketRoute& route, Nanoseconds patience);

} // namespace reprise::querier
