#pragma once
// Where frames to the server go: the outgoing interface, its hardware address, and the next hop's.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "querier/packet/frame.hh"

#include <cstdint>
#include <string>

namespace reprise::querier {

struct PacketRoute {
    std::uint32_t interface = 0; ///< index
    std::string name;            ///< of the interface
    std::uint32_t mtu = 0;       ///< of the interface; bytes of an IP packet
    MacAddresses macs;

    /// A message of this size fits into a frame without fragments.
    [[nodiscard]] bool carries(size_t ip_size) const { return ip_size <= mtu; }
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
