#include "proxy/tun/next_hop.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/netlink.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <linux/if_packet.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>

namespace reprise::proxy {

namespace {

constexpr size_t kEthernetAddress = 6;
constexpr unsigned kUsable =
    NUD_PERMANENT | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE; // with an address to send to

std::uint8_t bits_of(const IpAddress& address) {
    return static_cast<std::uint8_t>(address.size() * 8);
}

/// The neighbor that a piece of news speaks of.
std::optional<Gateway> neighbor_in(const NetlinkMessage& news) {
    const auto address = news.address(sizeof(ndmsg), NDA_DST);
    const auto interface = static_cast<unsigned>(news.header<ndmsg>().ndm_ifindex);
    return address ? std::optional(Gateway{.interface = interface, .address = *address})
                   : std::nullopt;
}

/// A look-up tells of IPv4's setting only. False where it cannot be read.
bool forwards_v6() {
    std::ifstream in("/proc/sys/net/ipv6/conf/all/forwarding");
    int value = 0;
    in >> value;
    return value != 0;
}

NetlinkRequest route_request(const Flow& flow, unsigned incoming) {
    rtmsg header{};
    header.rtm_family = socket_family(flow.destination);
    header.rtm_dst_len = bits_of(flow.destination);
    header.rtm_src_len = bits_of(flow.source);
    NetlinkRequest request(RTM_GETROUTE, 0, header);
    request.add(RTA_DST, flow.destination)
        .add(RTA_SRC, flow.source)
        .add_number(RTA_IIF, incoming)
        .add_number(RTA_IP_PROTO, std::uint8_t{IPPROTO_UDP});
    if (flow.source_port != 0) {
        request.add_number(RTA_SPORT, htons(flow.source_port));
    }
    if (flow.destination_port != 0) {
        request.add_number(RTA_DPORT, htons(flow.destination_port));
    }
    return request;
}

} // namespace

RoutingTables::RoutingTables(unsigned incoming)
    : incoming_(incoming),
      listen_({RTNLGRP_NEIGH, RTNLGRP_LINK, RTNLGRP_NEXTHOP, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
               RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE,
               RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF}),
      forwards_v6_(forwards_v6()) {}

void RoutingTables::forget() {
    ethernet_.clear();
    forwards_v6_ = forwards_v6();
}

bool RoutingTables::is_ethernet(unsigned interface) {
    const auto [found, fresh] = ethernet_.try_emplace(interface, false);
    if (fresh) {
        int error = 0;
        const auto link = ask_.ask_link(interface, error);
        found->second = link && link->header<ifinfomsg>().ifi_type == ARPHRD_ETHER;
    }
    return found->second;
}

std::optional<Gateway> RoutingTables::gateway(const Flow& flow) {
    if (flow.destination.is_v6() && !forwards_v6_) {
        return std::nullopt;
    }
    NetlinkRequest request = route_request(flow, incoming_);
    int error = 0;
    const auto answer = ask_.ask(request, error);
    if (!answer || answer->type() != RTM_NEWROUTE ||
        answer->header<rtmsg>().rtm_type != RTN_UNICAST ||
        !answer->attribute(sizeof(rtmsg), RTA_VIA).empty()) {
        return std::nullopt;
    }
    const Gateway found{.interface = answer->number(sizeof(rtmsg), RTA_OIF),
                        .address =
                            answer->address(sizeof(rtmsg), RTA_GATEWAY).value_or(flow.destination)};
    return is_ethernet(found.interface) ? std::optional(found) : std::nullopt;
}

std::optional<sockaddr_ll> RoutingTables::neighbor(const Gateway& gateway) {
    const auto answer = ask_.ask_neighbor(gateway.interface, gateway.address, kUsable);
    const Bytes hardware = answer ? answer->attribute(sizeof(ndmsg), NDA_LLADDR) : Bytes{};
    if (hardware.size() != kEthernetAddress) {
        return std::nullopt;
    }
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_protocol = htons(gateway.address.is_v4() ? 0x0800 : 0x86dd);
    to.sll_ifindex = static_cast<int>(gateway.interface);
    to.sll_halen = kEthernetAddress;
    std::ranges::copy(hardware, to.sll_addr);
    return to;
}

RoutingTables::Changes RoutingTables::changes() {
    Changes found;
    while (const auto news = listen_.receive()) {
        if (news->type() != RTM_NEWNEIGH && news->type() != RTM_DELNEIGH) {
            found.routes = true;
        } else if (const auto gateway = neighbor_in(*news)) {
            found.neighbors.push_back(*gateway);
        }
    }
    found.routes = found.routes || errno == ENOBUFS; // more news than the socket holds
    return found;
}

} // namespace reprise::proxy
