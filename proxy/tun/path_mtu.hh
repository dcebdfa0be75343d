#pragma once
// Where the packets of a map go, and the largest that fits through the interface toward there.

#include "core/base/address.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/tun/link_sender.hh"
#include "proxy/tun/tun.hh"

#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace reprise::proxy {

/// The addresses to which this side's packets go, one of each family and neighbor: of every
/// instance beside a resolver, of every resolver beside the meta-DNS-server.
std::vector<IpAddress> neighbors(const AddressMap& map, Side side, unsigned resolver);

/// All addresses to which this side's packets go, each with an example of its packets.
std::vector<Flow> flows(const AddressMap& map, Side side, unsigned resolver);

// Keeps the device's MTU at that of the way to the other side.
//
// A packet that left the device whole must fit the link it is sent on: the kernel would drop it
// there, and its error message would go to an address that nobody has here. The device's own MTU of
// before does not count, or a link that was narrow once would make all later runs narrow.

class MtuKeeper {
public:
    /// `tun` must outlive this.
    MtuKeeper(const Tun& tun, std::vector<IpAddress> neighbors)
        : tun_(tun), neighbors_(std::move(neighbors)) {}

    /// Sets the device's MTU where another is right; warns of neighbors without a route and of a
    /// refusal, once for each.
    void fit();

private:
    [[nodiscard]] std::optional<int> narrowest();
    [[nodiscard]] int wide_enough(int mtu);
    void set(int mtu, int before);

    const Tun& tun_;
    std::vector<IpAddress> neighbors_;
    std::set<IpAddress> without_route_;
    int refused_ = 0; ///< an MTU that could not be set
    int narrow_ = 0;  ///< a link's MTU that is too small for IPv6
    bool told_ = false;
};

/// The MTU for a device when the narrowest route has `route`: within what a device can have, and at
/// least the 1,280 bytes without which the kernel takes IPv6 off the device, where that is needed.
int device_mtu(int route, bool v6);

} // namespace reprise::proxy
