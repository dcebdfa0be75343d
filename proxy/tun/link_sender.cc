#include "proxy/tun/link_sender.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/host.hh"
#include "core/base/netlink.hh"
#include "core/wire/query.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <linux/if_packet.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <map>
#include <netinet/in.h>
#include <optional>
#include <set>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::proxy {

namespace {

constexpr size_t kEthernetAddress = 6;
constexpr unsigned kUsable =
    NUD_PERMANENT | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE; // with an address to send to

std::uint8_t bits_of(const IpAddress& address) {
    return static_cast<std::uint8_t>(address.size() * 8);
}

/// A look-up tells of IPv4's setting only. False where it cannot be read.
bool forwards_v6() {
    const std::string value = first_line("/proc/sys/net/ipv6/conf/all/forwarding");
    return !value.empty() && value != "0";
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

/// Destinations looked up in one go: about half a millisecond.
constexpr size_t kSlice = 128;

/// One server's address of each slot, by whether it is of IPv6, and at slot 0 of any.
std::map<std::pair<unsigned, bool>, IpAddress> examples(const AddressMap& map) {
    std::map<std::pair<unsigned, bool>, IpAddress> found;
    for (const Oqda& oqda : map.oqdas) {
        found.try_emplace({oqda.slot, oqda.address.is_v6()}, oqda.address);
        found.try_emplace({0, oqda.address.is_v6()}, oqda.address);
    }
    return found;
}

/// An address to which packets go.
struct Peer {
    unsigned neighbor; ///< instance or resolver
    unsigned slot;     ///< that it carries, 0 for any
    IpAddress address;
};

std::vector<Peer> peers(const AddressMap& map, Side side, unsigned resolver) {
    std::vector<Peer> found;
    const auto add = [&](unsigned neighbor, unsigned slot, const auto& host) {
        for (const IpAddress& address : {host.v4, host.v6}) {
            if (address.family != 0) {
                found.push_back({neighbor, slot, address});
            }
        }
    };
    if (side == Side::kMeta) {
        for (const Resolver& each : map.resolvers) {
            add(each.number, 0, each);
        }
    } else if (side == Side::kResolver) {
        for (const MetaAddress& meta : map.metas) {
            if (meta.resolver == resolver) {
                add(meta.instance, meta.slot, meta);
            }
        }
    }
    return found;
}

} // namespace

std::vector<Flow> flows(const AddressMap& map, Side side, unsigned resolver) {
    std::vector<Flow> found;
    const auto servers = examples(map);
    const bool answers = side == Side::kMeta;
    for (const auto& [neighbor, slot, address] : peers(map, side, resolver)) {
        const auto server = servers.find({slot, address.is_v6()});
        if (server != servers.end()) { // else there are no such packets
            found.push_back({.source = server->second,
                             .destination = address,
                             .source_port = answers ? kDnsPort : std::uint16_t{0},
                             .destination_port = answers ? std::uint16_t{0} : kDnsPort});
        }
    }
    return found;
}

std::vector<IpAddress> neighbors(const AddressMap& map, Side side, unsigned resolver) {
    std::vector<IpAddress> found;
    std::set<std::pair<unsigned, bool>> seen;
    for (const Peer& peer : peers(map, side, resolver)) {
        if (seen.emplace(peer.neighbor, peer.address.is_v6()).second) {
            found.push_back(peer.address);
        }
    }
    return found;
}

LinkSender::LinkSender(std::vector<Flow> flows, unsigned incoming)
    : flows_(std::move(flows)), incoming_(incoming),
      listen_({RTNLGRP_NEIGH, RTNLGRP_LINK, RTNLGRP_NEXTHOP, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
               RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE,
               RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF}),
      // Protocol 0: it receives nothing.
      socket_(check(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "open a packet socket")),
      room_(kBatch * kRoom), pieces_(kBatch), messages_(kBatch) {
    for (size_t i = 0; i < kBatch; ++i) {
        pieces_[i].iov_base = room_.data() + i * kRoom;
        messages_[i].msg_hdr.msg_iov = &pieces_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
        messages_[i].msg_hdr.msg_namelen = sizeof(sockaddr_ll);
    }
    begin_round();
    look_up(flows_.size());
}

/// Until they are looked up again, packets go by the device.
void LinkSender::begin_round() {
    by_destination_.clear();
    hops_.clear();
    forwards_v6_ = forwards_v6();
    outdated_ = false;
    next_ = 0;
}

void LinkSender::look_up(size_t most) {
    for (; most != 0 && busy(); --most) {
        const Flow& flow = flows_[next_++];
        if (const auto by = gateway(flow)) {
            const auto [hop, fresh] = hops_.try_emplace(*by);
            if (fresh) {
                hop->second.to = neighbor(*by);
            }
            by_destination_[flow.destination] = &hop->second;
        }
    }
}

/// None where there is no route, or the host does not forward.
std::optional<Gateway> LinkSender::gateway(const Flow& flow) {
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
    return Gateway{.interface = answer->number(sizeof(rtmsg), RTA_OIF),
                   .address =
                       answer->address(sizeof(rtmsg), RTA_GATEWAY).value_or(flow.destination)};
}

/// The address for the packet socket; none while the neighbor is not resolved, or where the link
/// has no hardware addresses like Ethernet's.
std::optional<sockaddr_ll> LinkSender::neighbor(const Gateway& gateway) {
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

void LinkSender::refresh() {
    while (const auto news = listen_.receive()) {
        if (news->type() != RTM_NEWNEIGH && news->type() != RTM_DELNEIGH) {
            outdated_ = true;
            continue;
        }
        const auto interface = static_cast<unsigned>(news->header<ndmsg>().ndm_ifindex);
        const auto address = news->address(sizeof(ndmsg), NDA_DST).value_or(IpAddress{});
        const auto hop = hops_.find({.interface = interface, .address = address});
        if (hop != hops_.end()) {
            hop->second.to = neighbor(hop->first);
        }
    }
    outdated_ = outdated_ || errno == ENOBUFS; // more news than the socket holds
    if (outdated_ && !busy()) { // a round that is under way ends first, or it never might
        begin_round();
    }
    look_up(kSlice);
}

void LinkSender::confirm() {
    for (auto& [gateway, hop] : hops_) {
        hop.by_kernel = true;
    }
}

bool LinkSender::add(Bytes packet) {
    const auto found = by_destination_.find(destination_of(packet));
    if (found == by_destination_.end() || packet.size() > kRoom || full()) {
        return false;
    }
    Hop* const hop = found->second;
    if (!hop->to || std::exchange(hop->by_kernel, false)) {
        return false;
    }
    copy_bytes(packet, static_cast<std::uint8_t*>(pieces_[filled_].iov_base));
    pieces_[filled_].iov_len = packet.size();
    messages_[filled_].msg_hdr.msg_name = &*hop->to;
    ++filled_;
    return true;
}

LinkSender::Sent LinkSender::flush(const std::function<void(Bytes)>& by_device) {
    Sent result;
    for (size_t first = 0; first < filled_;) {
        const auto count = static_cast<unsigned>(filled_ - first);
        const int taken = sendmmsg(socket_.get(), &messages_[first], count, MSG_DONTWAIT);
        if (taken >= 0) {
            result.sent += static_cast<size_t>(taken);
            first += static_cast<size_t>(taken);
        } else if (errno == EMSGSIZE) { // errors are of the first packet
            ++result.too_long;
            ++first;
        } else if (errno != EINTR) { // with EAGAIN the link's queue stands still
            for (const size_t end = errno == EAGAIN ? filled_ : first + 1; first < end; ++first) {
                const iovec& piece = pieces_[first];
                by_device({static_cast<const std::uint8_t*>(piece.iov_base), piece.iov_len});
            }
        }
    }
    filled_ = 0;
    return result;
}

} // namespace reprise::proxy
