#include "proxy/tun/mtu_keeper.hh"

#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "proxy/tun/path_mtu.hh"
#include "proxy/tun/tun.hh"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace reprise::proxy {

namespace {

constexpr int kLeastV4 = 68;    // RFC 791
constexpr int kLeastV6 = 1'280; // RFC 8200
constexpr int kMost = 65'535;

} // namespace

int device_mtu(int route, bool v6) { return std::clamp(route, v6 ? kLeastV6 : kLeastV4, kMost); }

void MtuKeeper::fit() {
    const int before = tun_.mtu();
    const int mtu = wide_enough(narrowest().value_or(before));
    if (mtu != before && mtu != refused_) {
        set(mtu, before);
    } else if (!std::exchange(told_, true)) {
        spdlog::info("event=mtu device={} mtu={} before={}", tun_.name(), mtu, before);
    }
}

std::optional<int> MtuKeeper::narrowest() {
    std::optional<int> narrowest;
    for (const IpAddress& address : neighbours_) {
        const std::optional<int> found = route_mtu(address);
        warn_of_route(address, found.has_value());
        if (found) {
            narrowest = std::min(*found, narrowest.value_or(*found));
        }
    }
    return narrowest;
}

void MtuKeeper::warn_of_route(const IpAddress& address, bool found) {
    if (found) {
        without_route_.erase(address);
    } else if (without_route_.insert(address).second) {
        spdlog::warn("event=no_route to={} hint=\"add a route to it; packets that go there are "
                     "lost\"",
                     address.text());
    }
}

int MtuKeeper::wide_enough(int mtu) {
    const int wide = device_mtu(mtu, std::ranges::any_of(neighbours_, &IpAddress::is_v6));
    if (wide > mtu && std::exchange(narrow_, mtu) != mtu) {
        spdlog::warn("event=narrow_link mtu={} hint=\"give the link at least {} bytes; longer "
                     "packets are lost\"",
                     mtu, wide);
    }
    return wide;
}

/// Beside an unprivileged process set-up has to do it, so a refusal is no reason to end.
void MtuKeeper::set(int mtu, int before) {
    told_ = true;
    try {
        tun_.set_mtu(mtu);
        refused_ = 0;
        spdlog::info("event=mtu device={} mtu={} before={}", tun_.name(), mtu, before);
    } catch (const SystemError& error) {
        refused_ = mtu;
        spdlog::warn("event=mtu_refused device={} mtu={} because={} hint=\"ip link set {} mtu {}\"",
                     tun_.name(), mtu, log_value(error.what()), tun_.name(), mtu);
    }
}

} // namespace reprise::proxy
