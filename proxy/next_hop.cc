#include "proxy/next_hop.hh"

#include "core/address.hh"
#include "core/bytes.hh"
#include "core/error.hh"
#include "core/fd.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/if_packet.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <optional>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace reprise::proxy {

namespace {

constexpr size_t kEthernetAddress = 6;
constexpr unsigned kUsable =
    NUD_PERMANENT | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE; // with an address to send to

FileDescriptor open_netlink(unsigned groups) {
    FileDescriptor fd(
        check(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), "socket AF_NETLINK"));
    sockaddr_nl own{};
    own.nl_family = AF_NETLINK;
    own.nl_groups = groups;
    check(bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), "bind AF_NETLINK");
    return fd;
}

/// A request: the fixed header of its type and one attribute, an address.
template <typename Header> struct Request {
    nlmsghdr message{};
    Header header{};
    rtattr attribute{};
    std::array<std::uint8_t, 16> address{};

    Request(std::uint16_t type, std::uint16_t attribute_type, const IpAddress& value) {
        attribute.rta_type = attribute_type;
        attribute.rta_len = static_cast<std::uint16_t>(sizeof attribute + value.size());
        address = value.bytes;
        message.nlmsg_type = type;
        message.nlmsg_flags = NLM_F_REQUEST;
        message.nlmsg_len =
            static_cast<std::uint32_t>(sizeof message + sizeof header + attribute.rta_len);
    }
};

std::uint8_t family_of(const IpAddress& address) { return address.is_v4() ? AF_INET : AF_INET6; }

/// One answer of the kernel, read with a cursor.
class Answer {
public:
    /// False where the kernel refused or did not answer with `type`.
    template <typename Question> bool ask(int fd, const Question& question, std::uint16_t type) {
        if (send(fd, &question, question.message.nlmsg_len, 0) < 0) {
            return false;
        }
        const ssize_t got = recv(fd, buffer_.data(), buffer_.size(), 0);
        nlmsghdr message{};
        if (got < ssize_t{sizeof message}) {
            return false;
        }
        std::memcpy(&message, buffer_.data(), sizeof message);
        bytes_ =
            Bytes(buffer_).first(std::min<size_t>(static_cast<size_t>(got), message.nlmsg_len));
        return message.nlmsg_type == type;
    }

    template <typename Header> [[nodiscard]] Header header() const {
        Cursor cursor(bytes_);
        cursor.skip(sizeof(nlmsghdr));
        return cursor.little<Header>();
    }

    /// The value of an attribute behind a fixed header of `header` bytes; empty where it is not
    /// there.
    [[nodiscard]] Bytes attribute(size_t header, std::uint16_t type) const {
        Cursor cursor(bytes_);
        cursor.skip(NLMSG_ALIGN(sizeof(nlmsghdr) + header));
        while (cursor.ok() && cursor.left() >= sizeof(rtattr)) {
            const auto head = cursor.little<rtattr>();
            if (head.rta_len < sizeof head) {
                break;
            }
            const size_t length = head.rta_len - sizeof head;
            const Bytes value = cursor.take(length);
            if (head.rta_type == type) {
                return value;
            }
            cursor.skip(std::min(RTA_ALIGN(length) - length, cursor.left()));
        }
        return {};
    }

private:
    alignas(nlmsghdr) std::array<std::uint8_t, 8'192> buffer_{};
    Bytes bytes_;
};

/// Whether the interface has hardware addresses of Ethernet's kind. A TUN device does not.
bool is_ethernet(int fd, unsigned interface) {
    ifreq ask{};
    return if_indextoname(interface, ask.ifr_name) != nullptr &&
           ioctl(fd, SIOCGIFHWADDR, &ask) == 0 && ask.ifr_hwaddr.sa_family == ARPHRD_ETHER;
}

} // namespace

RoutingTables::RoutingTables()
    : ask_(open_netlink(0)),
      listen_(open_netlink(RTMGRP_NEIGH | RTMGRP_LINK | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE |
                           RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR)) {
    set_nonblocking(listen_.get());
}

std::optional<Gateway> RoutingTables::gateway(const IpAddress& destination) const {
    Request<rtmsg> request(RTM_GETROUTE, RTA_DST, destination);
    request.header.rtm_family = family_of(destination);
    request.header.rtm_dst_len = static_cast<std::uint8_t>(destination.size() * 8);
    Answer answer;
    if (!answer.ask(ask_.get(), request, RTM_NEWROUTE) ||
        answer.header<rtmsg>().rtm_type != RTN_UNICAST ||
        !answer.attribute(sizeof(rtmsg), RTA_VIA).empty()) {
        return std::nullopt;
    }
    Gateway found{.interface = 0, .address = destination};
    Cursor interface(answer.attribute(sizeof(rtmsg), RTA_OIF));
    found.interface = interface.little<std::uint32_t>();
    const Bytes via = answer.attribute(sizeof(rtmsg), RTA_GATEWAY);
    if (via.size() == destination.size()) {
        found.address = via.size() == 4 ? IpAddress::v4(via.data()) : IpAddress::v6(via.data());
    }
    return is_ethernet(ask_.get(), found.interface) ? std::optional(found) : std::nullopt;
}

std::optional<sockaddr_ll> RoutingTables::neighbour(const Gateway& gateway) const {
    Request<ndmsg> request(RTM_GETNEIGH, NDA_DST, gateway.address);
    request.header.ndm_family = family_of(gateway.address);
    request.header.ndm_ifindex = static_cast<int>(gateway.interface);
    Answer answer;
    if (!answer.ask(ask_.get(), request, RTM_NEWNEIGH) ||
        (answer.header<ndmsg>().ndm_state & kUsable) == 0) {
        return std::nullopt;
    }
    const Bytes hardware = answer.attribute(sizeof(ndmsg), NDA_LLADDR);
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

RoutingTables::Changes RoutingTables::changes() const {
    Changes found;
    std::array<std::uint8_t, 16'384> buffer{};
    for (;;) {
        const ssize_t got = recv(listen_.get(), buffer.data(), buffer.size(), 0);
        if (got < 0 && errno == ENOBUFS) { // more news than the socket holds: look at everything
            return {.routes = true, .neighbours = true};
        }
        if (got < ssize_t{sizeof(nlmsghdr)}) {
            return found;
        }
        nlmsghdr message{};
        std::memcpy(&message, buffer.data(), sizeof message);
        const bool neighbour =
            message.nlmsg_type == RTM_NEWNEIGH || message.nlmsg_type == RTM_DELNEIGH;
        (neighbour ? found.neighbours : found.routes) = true;
    }
}

} // namespace reprise::proxy
