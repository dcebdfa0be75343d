#pragma once
// Where the packets of a map go, and the largest that fits through the interface towards there.

#include "core/base/address.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/tun/next_hop.hh"

#include <optional>
#include <vector>

namespace reprise::proxy {

/// MTU of the route to an address, by the kernel's routing table; none without a route. Nothing is
/// sent.
std::optional<int> route_mtu(const IpAddress& address);

/// The addresses to which this side's packets go, one of each family and neighbour: of every
/// instance beside a resolver, of every resolver beside the meta-DNS-server.
std::vector<IpAddress> neighbours(const AddressMap& map, Side side, unsigned resolver);

/// All addresses to which this side's packets go, each with an example of its packets.
std::vector<Flow> flows(const AddressMap& map, Side side, unsigned resolver);

} // namespace reprise::proxy
