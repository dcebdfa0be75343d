#pragma once
// The sockets of a scenario's network.

#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"
#include "querier/testing/simulation/network.hh"

#include <memory>

namespace reprise::querier::testing {

/// The network outlives it, and so do the parts.
[[nodiscard]] std::unique_ptr<Carrier>
simulated_udp(SimulatedNetwork& network, const CarrierWish& wish, const CarrierParts& parts);

/// The client's end of a connection; closes it at the end of its life.
[[nodiscard]] std::unique_ptr<TcpSocket> simulated_tcp(SimulatedNetwork& network, FlowPtr flow);

} // namespace reprise::querier::testing
