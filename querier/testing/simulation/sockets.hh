#pragma once
// The sockets of a scenario's network.

#include "querier/network/network.hh"
#include "querier/network/tcp_socket.hh"
#include "querier/sockets/transport.hh"
#include "querier/testing/simulation/network.hh"

#include <memory>

namespace reprise::querier::testing {

/// The network outlives it, and so do the parts.
[[nodiscard]] std::unique_ptr<UdpTransport>
simulated_udp(SimulatedNetwork& network, const UdpWish& wish, const UdpParts& parts);

/// The client's end of a connection; closes it at the end of its life.
[[nodiscard]] std::unique_ptr<TcpSocket> simulated_tcp(SimulatedNetwork& network, FlowPtr flow);

} // namespace reprise::querier::testing
