#include "proxy/rewrite/rewrite.hh"

#include "core/base/error.hh"
#include "core/wire/query.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/headers.hh"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_map>

namespace reprise::proxy {

namespace {

using Packet = std::span<std::uint8_t>;

constexpr size_t kV4Checksum = 10;
constexpr size_t kUdpChecksum = 6;
constexpr size_t kTcpChecksum = 16;

std::uint32_t fold(std::uint32_t sum) {
    sum = (sum & 0xffffU) + (sum >> 16U);
    return (sum & 0xffffU) + (sum >> 16U);
}

/// The share of a new address minus that of the old one, as a one's complement sum of 16 bits.
std::uint32_t difference(const std::uint8_t* old_address, const std::uint8_t* new_address,
                         size_t size) {
    std::uint32_t sum = 0;
    for (size_t i = 0; i < size; i += 2) {
        sum += (~std::uint32_t{load16(old_address + i)} & 0xffffU) + load16(new_address + i);
    }
    return fold(sum);
}

/// RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
void adjust(std::uint8_t* checksum, std::uint32_t change, bool udp) {
    std::uint32_t value = ~fold((~std::uint32_t{load16(checksum)} & 0xffffU) + change) & 0xffffU;
    if (udp && value == 0) {
        value = 0xffff; // the same number; 0 would say that there is no checksum
    }
    store16(checksum, value);
}

void adjust_transport(std::uint8_t* header, std::uint8_t protocol, std::uint32_t change) {
    if (protocol == kTcp) {
        adjust(header + kTcpChecksum, change, false);
    } else if (load16(header + kUdpChecksum) != 0) {
        adjust(header + kUdpChecksum, change, true);
    }
}

void move_addresses(Packet packet, const Headers& headers, const std::uint8_t* destination) {
    const size_t size = headers.address_size();
    std::uint8_t* const addresses = packet.data() + headers.addresses();
    const std::uint32_t change = difference(addresses, destination, size);
    std::memcpy(addresses, addresses + size, size);
    std::memcpy(addresses + size, destination, size);
    if (!headers.v6) {
        adjust(packet.data() + kV4Checksum, change, false);
    }
    if (!headers.later_fragment) {
        adjust_transport(packet.data() + headers.transport, headers.protocol, change);
    }
}

/// Router solicitations and group reports, which the kernel sends on every device that is up.
bool is_link_local(Packet packet, const Headers& headers) {
    return headers.v6 && packet[24] == 0xff;
}

/// Whether the packet is DNS in the direction that this side rewrites, as far as it can tell.
bool is_dns(Packet packet, const Headers& headers, Side side) {
    if (headers.v6 && headers.later_fragment && headers.protocol == kDestinationOptions) {
        return true; // only the first fragment shows what follows the options
    }
    if (headers.protocol != kUdp && headers.protocol != kTcp) {
        return false;
    }
    const size_t port = headers.transport + (side == Side::kResolver ? size_t{2} : 0);
    return headers.later_fragment || load16(packet.data() + port) == kDnsPort;
}

Traffic traffic_of(Packet packet, const Headers& headers, Side side) {
    if (headers.later_fragment) {
        return Traffic::kOther;
    }
    if (headers.protocol == kUdp) {
        return Traffic::kDatagram;
    }
    constexpr unsigned kSyn = 0x02;
    constexpr unsigned kPsh = 0x08;
    constexpr unsigned kSynAck = 0x12;
    const unsigned flags = packet[headers.transport + size_t{13}];
    if ((flags & kSynAck) == (side == Side::kResolver ? kSyn : kSynAck)) {
        return Traffic::kConnection;
    }
    return (flags & kPsh) != 0 ? Traffic::kPushed : Traffic::kOther;
}

/// Whether a query comes from the address to which its answer will go.
bool is_own(Packet packet, const Headers& headers, const Routes& routes) {
    const IpAddress& own = routes.own(headers.v6);
    return std::memcmp(packet.data() + headers.addresses(), own.bytes.data(),
                       headers.address_size()) == 0;
}

Outcome apply(Packet packet, const Headers& headers, const Routes& routes) {
    const Side side = routes.side();
    const size_t source = headers.addresses();
    const size_t key = side == Side::kMeta ? source : source + headers.address_size();
    Outcome outcome{.traffic = traffic_of(packet, headers, side),
                    .decides = static_cast<std::uint8_t>(key),
                    .v6 = headers.v6};
    const std::uint8_t* const destination = routes.find(packet.data() + key, headers.v6);
    if (destination == nullptr) {
        outcome.verdict = Verdict::kUnmapped;
    } else if (side == Side::kResolver && !is_own(packet, headers, routes)) {
        outcome.verdict = Verdict::kWrongSource;
    } else {
        move_addresses(packet, headers, destination);
        outcome.verdict = Verdict::kRewritten;
        outcome.decides = static_cast<std::uint8_t>(source); // where the OQDA is now
    }
    return outcome;
}

} // namespace

/// Does nothing where one of them is missing: such packets are unmapped.
void Routes::add(const IpAddress& from, const IpAddress& to) {
    if (from.family == 0 || from.family != to.family) {
        return;
    }
    const auto [id, fresh] = ids_.find_or_add(from, to_.size());
    if (fresh) {
        to_.push_back(to);
    } else {
        to_[id] = to;
    }
}

Routes Routes::of_resolver(const AddressMap& map, unsigned number) {
    const Resolver* const resolver = map.resolver(number);
    if (resolver == nullptr) {
        throw UsageError(fmt::format("--resolver {}: the map has {} resolvers; give one of its "
                                     "lines \"resolver\"",
                                     number, map.resolvers.size()));
    }
    std::unordered_map<unsigned, const MetaAddress*> by_slot;
    for (const MetaAddress& meta : map.metas) {
        if (meta.resolver == number) {
            by_slot.emplace(meta.slot, &meta);
        }
    }
    Routes routes;
    routes.side_ = Side::kResolver;
    for (const Oqda& oqda : map.oqdas) {
        const auto meta = by_slot.find(oqda.slot);
        if (meta == by_slot.end()) {
            throw Error(fmt::format("the map sends {} to slot {}, which has no address for "
                                    "resolver {}; let `reprise zones plan` write it again",
                                    oqda.address.text(), oqda.slot, number));
        }
        routes.add(oqda.address, oqda.address.is_v4() ? meta->second->v4 : meta->second->v6);
    }
    routes.own_v4_ = resolver->v4;
    routes.own_v6_ = resolver->v6;
    return routes;
}

Routes Routes::of_meta(const AddressMap& map) {
    Routes routes;
    routes.side_ = Side::kMeta;
    for (const MetaAddress& meta : map.metas) {
        const Resolver* const resolver = map.resolver(meta.resolver);
        if (resolver == nullptr) {
            throw Error(fmt::format("the map has an address of slot {} for resolver {}, which it "
                                    "does not name; let `reprise zones plan` write it again",
                                    meta.slot, meta.resolver));
        }
        routes.add(meta.v4, resolver->v4);
        routes.add(meta.v6, resolver->v6);
    }
    return routes;
}

Outcome rewrite(std::span<std::uint8_t> packet, const Routes& routes) {
    const Headers headers = read_headers(packet);
    if (headers.fault != Verdict::kPassed) {
        return {.verdict = headers.fault};
    }
    Outcome outcome{.decides =
                        static_cast<std::uint8_t>(headers.addresses() + headers.address_size()),
                    .v6 = headers.v6};
    if (is_link_local(packet, headers)) {
        outcome.verdict = Verdict::kLinkLocal;
    } else if (routes.side() != Side::kNone) {
        outcome.verdict = check_transport(packet, headers);
        if (outcome.verdict == Verdict::kPassed) {
            if (is_dns(packet, headers, routes.side())) {
                return apply(packet, headers, routes);
            }
            outcome.verdict = Verdict::kForeign;
        }
    }
    return outcome;
}

IpAddress deciding_address(std::span<const std::uint8_t> packet, const Outcome& outcome) {
    const std::uint8_t* const at = packet.data() + outcome.decides;
    return outcome.v6 ? IpAddress::v6(at) : IpAddress::v4(at);
}

} // namespace reprise::proxy
