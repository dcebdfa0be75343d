#include "proxy/tun/next_hop.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
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

/// Whatever may change where a packet goes.
constexpr std::array kNews{RTNLGRP_NEIGH,        RTNLGRP_LINK,        RTNLGRP_NEXTHOP,
                           RTNLGRP_IPV4_ROUTE,   RTNLGRP_IPV6_ROUTE,  RTNLGRP_IPV4_IFADDR,
                           RTNLGRP_IPV6_IFADDR,  RTNLGRP_IPV4_RULE,   RTNLGRP_IPV6_RULE,
                           RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF};

FileDescriptor open_netlink(unsigned groups) {
    FileDescriptor fd(
        check(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), "socket AF_NETLINK"));
    sockaddr_nl own{};
    own.nl_family = AF_NETLINK;
    own.nl_groups = groups;
    check(bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), "bind AF_NETLINK");
    return fd;
}

FileDescriptor open_news() {
    unsigned groups = 0;
    for (const auto number : kNews) {
        groups |= 1U << (static_cast<unsigned>(number) - 1); // all are at most 32
    }
    FileDescriptor fd = open_netlink(groups);
    set_nonblocking(fd.get());
    return fd;
}

std::uint8_t family_of(const IpAddress& address) { return address.is_v4() ? AF_INET : AF_INET6; }

std::uint8_t bits_of(const IpAddress& address) {
    return static_cast<std::uint8_t>(address.size() * 8);
}

/// A question: the fixed header of its type, and attributes.
class Question {
public:
    template <typename Header> Question(std::uint16_t type, const Header& header) {
        message_.nlmsg_type = type;
        message_.nlmsg_flags = NLM_F_REQUEST;
        put(&message_, sizeof message_);
        put(&header, sizeof header);
    }

    Question& add(std::uint16_t type, const void* value, size_t size) {
        const rtattr head{.rta_len = static_cast<unsigned short>(sizeof head + size),
                          .rta_type = type};
        put(&head, sizeof head);
        put(value, size);
        return *this;
    }

    Question& add(std::uint16_t type, const IpAddress& address) {
        return add(type, address.bytes.data(), address.size());
    }

    Question& add_port(std::uint16_t type, std::uint16_t port) {
        const std::uint16_t value = htons(port);
        return port == 0 ? *this : add(type, &value, sizeof value);
    }

    /// The bytes, with `number` to know the answer by.
    Bytes numbered(std::uint32_t number) {
        message_.nlmsg_seq = number;
        message_.nlmsg_len = static_cast<std::uint32_t>(size_);
        std::memcpy(bytes_.data(), &message_, sizeof message_);
        return Bytes(bytes_).first(size_);
    }

private:
    void put(const void* from, size_t size) {
        std::memcpy(bytes_.data() + size_, from, size);
        size_ += NLMSG_ALIGN(size);
    }

    nlmsghdr message_{};
    size_t size_ = 0;
    /// Two headers and seven attributes of 20 bytes at most.
    std::array<std::uint8_t, 256> bytes_{};
};

/// One message of the kernel, read with a cursor.
class Answer {
public:
    /// False where the kernel refused or did not answer with `type`.
    bool ask(int fd, Question& question, std::uint32_t number, std::uint16_t type) {
        const Bytes bytes = question.numbered(number);
        if (send(fd, bytes.data(), bytes.size(), 0) < 0) {
            return false;
        }
        // The answer is there by now. One to an earlier question, whose reading failed, is not it.
        while (receive(fd)) {
            if (message_.nlmsg_seq == number) {
                return message_.nlmsg_type == type;
            }
        }
        return false;
    }

    /// False where none waits; errno tells of other reasons.
    bool receive(int fd) {
        const ssize_t got = recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
        if (got < ssize_t{sizeof message_}) {
            return got < 0 && errno == EINTR && receive(fd);
        }
        std::memcpy(&message_, buffer_.data(), sizeof message_);
        bytes_ =
            Bytes(buffer_).first(std::min<size_t>(static_cast<size_t>(got), message_.nlmsg_len));
        return true;
    }

    [[nodiscard]] std::uint16_t type() const { return message_.nlmsg_type; }

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
    nlmsghdr message_{};
    Bytes bytes_;
};

std::optional<IpAddress> address_in(Bytes value) {
    if (value.size() == 4) {
        return IpAddress::v4(value.data());
    }
    return value.size() == 16 ? std::optional(IpAddress::v6(value.data())) : std::nullopt;
}

/// The neighbour that a piece of news speaks of.
std::optional<Gateway> neighbour_in(const Answer& news) {
    const auto address = address_in(news.attribute(sizeof(ndmsg), NDA_DST));
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

/// Whether the interface has hardware addresses of Ethernet's kind. A TUN device does not.
bool has_ethernet(int fd, unsigned interface) {
    ifreq ask{};
    return if_indextoname(interface, ask.ifr_name) != nullptr &&
           ioctl(fd, SIOCGIFHWADDR, &ask) == 0 && ask.ifr_hwaddr.sa_family == ARPHRD_ETHER;
}

Question route_question(const Flow& flow, unsigned incoming) {
    rtmsg header{};
    header.rtm_family = family_of(flow.destination);
    header.rtm_dst_len = bits_of(flow.destination);
    header.rtm_src_len = bits_of(flow.source);
    const std::uint8_t protocol = IPPROTO_UDP;
    Question question(RTM_GETROUTE, header);
    question.add(RTA_DST, flow.destination)
        .add(RTA_SRC, flow.source)
        .add(RTA_IIF, &incoming, sizeof incoming)
        .add(RTA_IP_PROTO, &protocol, sizeof protocol)
        .add_port(RTA_SPORT, flow.source_port)
        .add_port(RTA_DPORT, flow.destination_port);
    return question;
}

} // namespace

RoutingTables::RoutingTables(unsigned incoming)
    : incoming_(incoming), ask_(open_netlink(0)), listen_(open_news()),
      forwards_v6_(forwards_v6()) {}

void RoutingTables::forget() {
    ethernet_.clear();
    forwards_v6_ = forwards_v6();
}

bool RoutingTables::is_ethernet(unsigned interface) {
    const auto [found, fresh] = ethernet_.try_emplace(interface, false);
    if (fresh) {
        found->second = has_ethernet(ask_.get(), interface);
    }
    return found->second;
}

std::optional<Gateway> RoutingTables::gateway(const Flow& flow) {
    if (flow.destination.is_v6() && !forwards_v6_) {
        return std::nullopt;
    }
    Question question = route_question(flow, incoming_);
    Answer answer;
    if (!answer.ask(ask_.get(), question, ++asked_, RTM_NEWROUTE) ||
        answer.header<rtmsg>().rtm_type != RTN_UNICAST ||
        !answer.attribute(sizeof(rtmsg), RTA_VIA).empty()) {
        return std::nullopt;
    }
    Cursor interface(answer.attribute(sizeof(rtmsg), RTA_OIF));
    const Gateway found{
        .interface = interface.little<std::uint32_t>(),
        .address =
            address_in(answer.attribute(sizeof(rtmsg), RTA_GATEWAY)).value_or(flow.destination)};
    return is_ethernet(found.interface) ? std::optional(found) : std::nullopt;
}

std::optional<sockaddr_ll> RoutingTables::neighbour(const Gateway& gateway) {
    ndmsg header{};
    header.ndm_family = family_of(gateway.address);
    header.ndm_ifindex = static_cast<int>(gateway.interface);
    Question question(RTM_GETNEIGH, header);
    question.add(NDA_DST, gateway.address);
    Answer answer;
    if (!answer.ask(ask_.get(), question, ++asked_, RTM_NEWNEIGH) ||
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

RoutingTables::Changes RoutingTables::changes() {
    Changes found;
    Answer news;
    while (news.receive(listen_.get())) {
        if (news.type() != RTM_NEWNEIGH && news.type() != RTM_DELNEIGH) {
            found.routes = true;
        } else if (const auto gateway = neighbour_in(news)) {
            found.neighbours.push_back(*gateway);
        }
    }
    found.routes = found.routes || errno == ENOBUFS; // more news than the socket holds
    return found;
}

} // namespace reprise::proxy
