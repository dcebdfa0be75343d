#include "querier/packet/route.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/netlink.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <linux/if.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <optional>
#include <span>
#include <string>
#include <sys/socket.h>
#include <thread>

namespace reprise::querier {
namespace {

constexpr std::uint16_t kEtherTypeV4 = 0x0800;
constexpr std::uint16_t kEtherTypeV6 = 0x86dd;
constexpr std::uint8_t kHops = 64;
constexpr std::uint8_t kDontFragment = 0x40;

Bytes bytes_of(const IpAddress& address) { return {address.bytes.data(), address.size()}; }

} // namespace

FrameTemplate::FrameTemplate(const MacAddresses& macs, const Endpoint& server)
    : v4_(server.address.is_v4()),
      headers_(kEthernetHeader + (v4_ ? sizeof(iphdr) : sizeof(ip6_hdr)) + sizeof(udphdr)) {
    std::ranges::copy(macs.next_hop, bytes_.begin());
    std::ranges::copy(macs.source, bytes_.begin() + 6);
    store16(&bytes_[12], v4_ ? kEtherTypeV4 : kEtherTypeV6);
    std::uint8_t* ip = &bytes_[kEthernetHeader];
    if (v4_) {
        ip[0] = 0x45;
        ip[6] = kDontFragment;
        ip[8] = kHops;
        ip[9] = IPPROTO_UDP;
        std::memcpy(ip + 16, server.address.bytes.data(), 4);
        ip_sum_.add(Bytes(ip, sizeof(iphdr)));
    } else {
        ip[0] = 0x60;
        ip[6] = IPPROTO_UDP;
        ip[7] = kHops;
        std::memcpy(ip + 24, server.address.bytes.data(), 16);
    }
    store16(&bytes_[headers_ - sizeof(udphdr) + 2], server.port);
    udp_sum_.add(bytes_of(server.address));
    udp_sum_.add(std::uint16_t{IPPROTO_UDP});
    udp_sum_.add(server.port);
}

size_t FrameTemplate::write(std::span<std::uint8_t> out, const Endpoint& source, Bytes query,
                            std::uint16_t id) const {
    std::memcpy(out.data(), bytes_.data(), headers_);
    std::memcpy(out.data() + headers_, query.data(), query.size());
    const auto udp_size = static_cast<std::uint16_t>(sizeof(udphdr) + query.size());
    std::uint8_t* ip = out.data() + kEthernetHeader;
    if (v4_) {
        const auto size = static_cast<std::uint16_t>(sizeof(iphdr) + udp_size);
        store16(ip + offsetof(iphdr, tot_len), size);
        store16(ip + offsetof(iphdr, id), id);
        std::memcpy(ip + offsetof(iphdr, saddr), source.address.bytes.data(), 4);
        Checksum sum = ip_sum_;
        sum.add(bytes_of(source.address));
        sum.add(size);
        sum.add(id);
        sum.store(ip + offsetof(iphdr, check));
    } else {
        store16(ip + offsetof(ip6_hdr, ip6_plen), udp_size);
        std::memcpy(ip + offsetof(ip6_hdr, ip6_src), source.address.bytes.data(), 16);
    }

    std::uint8_t* udp = out.data() + headers_ - sizeof(udphdr);
    store16(udp, source.port);
    store16(udp + offsetof(udphdr, len), udp_size);
    Checksum sum = udp_sum_;
    sum.add(bytes_of(source.address));
    sum.add(source.port);
    sum.add(udp_size, 2); // in the pseudo-header and in UDP's own
    sum.add(query);
    sum.store_udp(udp + offsetof(udphdr, check));
    return headers_ + query.size();
}

namespace {

constexpr std::chrono::milliseconds kLook(2);
constexpr std::uint16_t kResolved =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;
constexpr auto* kInstead = "use another source mode for this server";

struct Hop {
    std::uint32_t interface = 0;
    IpAddress address;
};

/// The gateway, or the server itself where it is on the link. A gateway of the other family
/// (RFC 5549) stands in RTA_VIA behind its family.
IpAddress gateway_of(const NetlinkMessage& answer, const IpAddress& server) {
    const auto plain = answer.address(sizeof(rtmsg), RTA_GATEWAY);
    if (plain && plain->family == server.family) {
        return *plain;
    }
    const Bytes via = answer.attribute(sizeof(rtmsg), RTA_VIA);
    if (via.size() == 2 + 16) {
        return IpAddress::v6(via.data() + 2);
    }
    return server;
}

Hop find_hop(Netlink& netlink, const IpAddress& server) {
    rtmsg header{};
    header.rtm_family = socket_family(server);
    header.rtm_dst_len = static_cast<std::uint8_t>(server.size() * 8);
    NetlinkRequest request(RTM_GETROUTE, 0, header);
    request.add(RTA_DST, server);
    int error = 0;
    const auto answer = netlink.ask(request, error);
    if (!answer) {
        throw Error(fmt::format("server {}: no route ({}); ip route add {}/{} via GATEWAY",
                                server.text(), std::strerror(error), server.text(),
                                server.size() * 8));
    }
    if (answer->header<rtmsg>().rtm_type == RTN_LOCAL) {
        throw Error(fmt::format("server {} is an address of this host, and packets to it pass no "
                                "network interface; {}",
                                server.text(), kInstead));
    }
    return {.interface = answer->number(sizeof(rtmsg), RTA_OIF),
            .address = gateway_of(*answer, server)};
}

NetlinkMessage ask_link(Netlink& netlink, std::uint32_t interface) {
    int error = 0;
    const auto answer = netlink.ask_link(interface, error);
    if (!answer) {
        throw Error(
            fmt::format("interface {}: {}; was it removed?", interface, std::strerror(error)));
    }
    return *answer;
}

MacAddress read_mac(Bytes bytes) {
    MacAddress mac{};
    std::copy_n(bytes.begin(), std::min(bytes.size(), mac.size()), mac.begin());
    return mac;
}

void fill_link(Netlink& netlink, PacketRoute& route) {
    const NetlinkMessage link = ask_link(netlink, route.interface);
    const Bytes name = link.attribute(sizeof(ifinfomsg), IFLA_IFNAME);
    route.name.assign(name.begin(), std::ranges::find(name, std::uint8_t{0}));
    if (link.header<ifinfomsg>().ifi_type != ARPHRD_ETHER) {
        throw Error(fmt::format("interface {} is not Ethernet; {}", route.name, kInstead));
    }
    if ((link.header<ifinfomsg>().ifi_flags & IFF_UP) == 0) {
        throw Error(fmt::format("interface {0} is down; ip link set {0} up", route.name));
    }
    route.mtu = std::min<std::uint32_t>(link.number(sizeof(ifinfomsg), IFLA_MTU),
                                        kMostFrame - kEthernetHeader);
    route.macs.source = read_mac(link.attribute(sizeof(ifinfomsg), IFLA_ADDRESS));
}

/// Lets the kernel resolve the neighbor as if a packet were to be sent. What it refuses (a user
/// without the right) shows as a neighbor that stays unknown.
void touch_neighbor(Netlink& netlink, const Hop& hop) {
    ndmsg header{};
    header.ndm_family = socket_family(hop.address);
    header.ndm_ifindex = static_cast<int>(hop.interface);
    header.ndm_flags = NTF_USE;
    header.ndm_state = NUD_NONE;
    NetlinkRequest request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, header);
    request.add(NDA_DST, hop.address);
    int error = 0;
    netlink.ask(request, error);
}

MacAddress find_neighbor(Netlink& netlink, const Hop& hop, const std::string& interface,
                         Nanoseconds patience) {
    const Nanoseconds limit = SteadyClock::now() + patience;
    touch_neighbor(netlink, hop);
    for (;;) {
        if (const auto known = netlink.ask_neighbor(hop.interface, hop.address, kResolved)) {
            return read_mac(known->attribute(sizeof(ndmsg), NDA_LLADDR));
        }
        if (SteadyClock::now() > limit) {
            throw Error(
                fmt::format("next hop {} on {} does not answer with its hardware address; is it "
                            "up and on this link?",
                            hop.address.text(), interface));
        }
        std::this_thread::sleep_for(kLook);
    }
}

/// Replies have destinations that are not this host's. Where it forwards, the ones that reach its
/// stack go back out, or cause ICMP errors to the server.
void refuse_forwarding(const std::string& interface, const IpAddress& server) {
    const auto* family = server.is_v4() ? "ipv4" : "ipv6";
    std::ifstream file(fmt::format("/proc/sys/net/{}/conf/{}/forwarding", family, interface));
    int value = 0;
    if (file >> value && value != 0) {
        throw Error(fmt::format("this host forwards packets of {1}, replies to the trace's sources "
                                "too; sysctl -w net/{0}/conf/{1}/forwarding=0",
                                family, interface));
    }
}

} // namespace

PacketRoute find_packet_route(const IpAddress& server, Nanoseconds patience) {
    Netlink netlink;
    const Hop hop = find_hop(netlink, server);
    PacketRoute route;
    route.interface = hop.interface;
    fill_link(netlink, route);
    refuse_forwarding(route.name, server);
    route.macs.next_hop = find_neighbor(netlink, hop, route.name, patience);
    return route;
}

bool has_carrier(const PacketRoute& route) {
    Netlink netlink;
    return (ask_link(netlink, route.interface).header<ifinfomsg>().ifi_flags & IFF_RUNNING) != 0;
}

void await_carrier(const PacketRoute& route, Nanoseconds patience) {
    const Nanoseconds limit = SteadyClock::now() + patience;
    while (!has_carrier(route)) {
        if (SteadyClock::now() > limit) {
            throw Error(
                fmt::format("interface {} has no carrier; is the other end up?", route.name));
        }
        std::this_thread::sleep_for(kLook);
    }
}

} // namespace reprise::querier
