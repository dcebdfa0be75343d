#pragma once
// Where the kernel would send a packet next: interface and hardware address, asked of rtnetlink.

#include "core/address.hh"
#include "core/fd.hh"

#include <linux/if_packet.h>
#include <optional>

namespace reprise::proxy {

/// The neighbour on a link that leads to some destination.
struct Gateway {
    unsigned interface = 0;
    IpAddress address; ///< of the gateway, or the destination itself where it is on the link

    auto operator<=>(const Gateway&) const = default;
};

/// Asks and listens. Needs no rights.
class RoutingTables {
public:
    /// Throws SystemError.
    RoutingTables();

    /// None where there is no route, or the packet would not leave by an Ethernet-like link.
    [[nodiscard]] std::optional<Gateway> gateway(const IpAddress& destination) const;

    /// The address for a packet socket; none while the neighbour is not resolved.
    [[nodiscard]] std::optional<sockaddr_ll> neighbour(const Gateway& gateway) const;

    /// What has changed since the last call.
    struct Changes {
        bool routes = false;     ///< a route, an address or a link
        bool neighbours = false; ///< a neighbour's state
    };

    [[nodiscard]] Changes changes() const;

private:
    FileDescriptor ask_;
    FileDescriptor listen_;
};

} // namespace reprise::proxy
