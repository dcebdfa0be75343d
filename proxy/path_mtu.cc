#include "proxy/path_mtu.hh"

#include "core/address.hh"
#include "core/fd.hh"
#include "proxy/address_map.hh"
#include "proxy/rewrite.hh"

#include <cstdint>
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

} // namespace

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

std::vector<IpAddress> destinations(const AddressMap& map, Side side, unsigned resolver) {
    std::vector<IpAddress> found;
    if (side != Side::kResolver) {
        return neighbours(map, side, resolver);
    }
    for (const MetaAddress& meta : map.metas) {
        for (const IpAddress& address : {meta.v4, meta.v6}) {
            if (meta.resolver == resolver && address.family != 0) {
                found.push_back(address);
            }
        }
    }
    return found;
}

std::vector<IpAddress> neighbours(const AddressMap& map, Side side, unsigned resolver) {
    std::vector<IpAddress> found;
    const auto add = [&found](const IpAddress& address) {
        if (address.family != 0) {
            found.push_back(address);
        }
    };
    if (side == Side::kMeta) {
        for (const Resolver& each : map.resolvers) {
            add(each.v4);
            add(each.v6);
        }
    } else if (side == Side::kResolver) {
        std::set<std::pair<unsigned, bool>> seen;
        for (const MetaAddress& meta : map.metas) {
            for (const IpAddress& address : {meta.v4, meta.v6}) {
                if (meta.resolver == resolver &&
                    seen.emplace(meta.instance, address.is_v6()).second) {
                    add(address);
                }
            }
        }
    }
    return found;
}

} // namespace reprise::proxy
