#pragma once
// Keeps the device's MTU at that of the way to the other side.
//
// A packet that left the device whole must fit the link it is sent on: the kernel would drop it
// there, and its error message would go to an address that nobody has here. The device's own MTU of
// before does not count, or a link that was narrow once would make all later runs narrow.

#include "core/base/address.hh"
#include "proxy/tun/tun.hh"

#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace reprise::proxy {

class MtuKeeper {
public:
    /// `tun` must outlive this.
    MtuKeeper(const Tun& tun, std::vector<IpAddress> neighbours)
        : tun_(tun), neighbours_(std::move(neighbours)) {}

    /// Sets the device's MTU where another is right; warns of neighbours without a route and of a
    /// refusal, once for each.
    void fit();

    void replace(std::vector<IpAddress> neighbours) { neighbours_ = std::move(neighbours); }

private:
    [[nodiscard]] std::optional<int> narrowest();
    void warn_of_route(const IpAddress& address, bool found);
    [[nodiscard]] int wide_enough(int mtu);
    void set(int mtu, int before);

    const Tun& tun_;
    std::vector<IpAddress> neighbours_;
    std::set<IpAddress> without_route_;
    int refused_ = 0; ///< an MTU that could not be set
    int narrow_ = 0;  ///< a link's MTU that is too small for IPv6
    bool told_ = false;
};

/// The MTU for a device when the narrowest route has `route`: within what a device can have, and at
/// least the 1,280 bytes without which the kernel takes IPv6 off the device, where that is needed.
int device_mtu(int route, bool v6);

} // namespace reprise::proxy
