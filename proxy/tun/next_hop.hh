#pragma once
// Where the kernel would send a packet next: interface and hardware address, asked of rtnetlink.
//
// The question is about a packet that comes in on the TUN device, with addresses, protocol and
// ports as the packets have them. So routing rules by interface, source, protocol or port count, as
// do the checks of forwarding and of reverse paths: where the kernel would drop the packet there is
// no gateway. One example stands for all packets to its destination: rules that tell apart servers
// of one meta address, or UDP from TCP, are not seen.

#include "core/base/address.hh"
#include "core/base/netlink.hh"

#include <cstdint>
#include <linux/if_packet.h>
#include <optional>
#include <unordered_map>
#include <vector>

namespace reprise::proxy {

/// The neighbor on a link that leads to some destination.
struct Gateway {
    unsigned interface = 0;
    IpAddress address; ///< of the gateway, or the destination itself where it is on the link

    auto operator<=>(const Gateway&) const = default;
};

/// What is known of the packets to one destination.
struct Flow {
    IpAddress source; ///< of one of them
    IpAddress destination;
    std::uint16_t source_port = 0; ///< 0 for any
    std::uint16_t destination_port = 0;
};

/// Asks and listens. Needs no rights.
class RoutingTables {
public:
    /// For packets that come in on the interface numbered `incoming`. Throws SystemError.
    explicit RoutingTables(unsigned incoming);

    /// None where there is no route, the host does not forward, or the packet would not leave by an
    /// Ethernet-like link.
    [[nodiscard]] std::optional<Gateway> gateway(const Flow& flow);

    /// The address for a packet socket; none while the neighbor is not resolved.
    [[nodiscard]] std::optional<sockaddr_ll> neighbor(const Gateway& gateway);

    /// What has changed since the last call.
    struct Changes {
        bool routes = false; ///< a route, rule, address, link or setting; look at everything
        std::vector<Gateway> neighbors; ///< whose state is another
    };

    [[nodiscard]] Changes changes();

    /// Forgets what is remembered of interfaces and settings, for a round of look-ups.
    void forget();

private:
    /// Whether the interface has hardware addresses of Ethernet's kind. A TUN device does not.
    bool is_ethernet(unsigned interface);

    unsigned incoming_;
    Netlink ask_;
    Netlink listen_; ///< to whatever may change where a packet goes
    bool forwards_v6_ = false;
    std::unordered_map<unsigned, bool> ethernet_; ///< by interface
};

} // namespace reprise::proxy
