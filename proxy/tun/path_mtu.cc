#include "proxy/tun/path_mtu.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/log.hh"
#include "core/wire/query.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/tun/link_sender.hh"
#include "proxy/tun/tun.hh"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <netinet/in.h>
#include <optional>
#include <set>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::proxy {

namespace {

/// "Discard". Not 53: the rules that bring DNS to the device must not catch this look-up.
constexpr std::uint16_t kPort = 9;

/// One server's address of each slot, by whether it is of IPv6, and at slot 0 of any.
std::map<std::pair<unsigned, bool>, IpAddress> examples(const AddressMap& map) {
    std::map<std::pair<unsigned, bool>, IpAddress> found;
    for (const Oqda& oqda : map.oqdas) {
        found.try_emplace({oqda.slot, oqda.address.is_v6()}, oqda.address);
        found.try_emplace({0, oqda.address.is_v6()}, oqda.address);
    }
    return found;
}

/// MTU of the route to an address, by the kernel's routing table; none without a route. Nothing is
/// sent.
std::optional<int> route_mtu(const IpAddress& address) {
    const bool v4 = address.is_v4();
    const FileDescriptor socket(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) { // a kernel without this family
        return std::nullopt;
    }
    sockaddr_storage storage{};
    const socklen_t length = Endpoint{.address = address, .port = kPort}.to_sockaddr(storage);
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0) {
        return std::nullopt;
    }
    int mtu = 0;
    socklen_t size = sizeof mtu;
    const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    if (getsockopt(socket.get(), level, v4 ? IP_MTU : IPV6_MTU, &mtu, &size) != 0) {
        return std::nullopt;
    }
    return mtu;
}

constexpr int kLeastV4 = 68;    // RFC 791
constexpr int kLeastV6 = 1'280; // RFC 8200
constexpr int kMost = 65'535;

} // namespace

std::vector<Flow> flows(const AddressMap& map, Side side, unsigned resolver) {
    std::vector<Flow> found;
    const auto add = [&](const IpAddress& source, const IpAddress& destination) {
        if (source.family != 0 && destination.family != 0) { // else there are no such packets
            const bool answers = side == Side::kMeta;
            found.push_back({.source = source,
                             .destination = destination,
                             .source_port = answers ? kDnsPort : std::uint16_t{0},
                             .destination_port = answers ? std::uint16_t{0} : kDnsPort});
        }
    };
    auto servers = examples(map); // one that is not there has no family
    if (side == Side::kResolver) {
        for (const MetaAddress& meta : map.metas) {
            if (meta.resolver == resolver) {
                add(servers[{meta.slot, false}], meta.v4);
                add(servers[{meta.slot, true}], meta.v6);
            }
        }
    } else if (side == Side::kMeta) {
        for (const Resolver& each : map.resolvers) {
            add(servers[{0, false}], each.v4);
            add(servers[{0, true}], each.v6);
        }
    }
    return found;
}

std::vector<IpAddress> neighbors(const AddressMap& map, Side side, unsigned resolver) {
    std::vector<IpAddress> found;
    std::set<std::pair<unsigned, bool>> seen;
    const auto add = [&](unsigned neighbor, const IpAddress& address) {
        if (address.family != 0 && seen.emplace(neighbor, address.is_v6()).second) {
            found.push_back(address);
        }
    };
    if (side == Side::kMeta) {
        for (const Resolver& each : map.resolvers) {
            add(each.number, each.v4);
            add(each.number, each.v6);
        }
    } else if (side == Side::kResolver) {
        for (const MetaAddress& meta : map.metas) {
            if (meta.resolver == resolver) {
                add(meta.instance, meta.v4);
                add(meta.instance, meta.v6);
            }
        }
    }
    return found;
}

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
    for (const IpAddress& address : neighbors_) {
        if (const std::optional<int> found = route_mtu(address)) {
            without_route_.erase(address);
            narrowest = std::min(*found, narrowest.value_or(*found));
        } else if (without_route_.insert(address).second) {
            spdlog::warn("event=no_route to={} hint=\"add a route to it; packets that go there are "
                         "lost\"",
                         address.text());
        }
    }
    return narrowest;
}

int MtuKeeper::wide_enough(int mtu) {
    const int wide = device_mtu(mtu, std::ranges::any_of(neighbors_, &IpAddress::is_v6));
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
