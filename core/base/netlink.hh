#pragma once
// Questions to the kernel's routing tables (rtnetlink), answered at once, and news of them.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/fd.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <optional>
#include <sys/socket.h>
#include <vector>

namespace reprise {

/// AF_INET or AF_INET6.
inline std::uint8_t socket_family(const IpAddress& address) {
    return address.is_v4() ? AF_INET : AF_INET6;
}

/// One request: a fixed header of its type and attributes, which fit 256 bytes.
class NetlinkRequest {
public:
    template <typename Header>
    NetlinkRequest(std::uint16_t type, std::uint16_t flags, const Header& header) {
        nlmsghdr message{};
        message.nlmsg_type = type;
        message.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
        append(bytes_of(message));
        append(bytes_of(header));
    }

    NetlinkRequest& add(std::uint16_t attribute, Bytes value);

    NetlinkRequest& add(std::uint16_t attribute, const IpAddress& address) {
        return add(attribute, Bytes(address.bytes).first(address.size()));
    }

    /// As it lies in memory.
    template <typename Number> NetlinkRequest& add_number(std::uint16_t attribute, Number value) {
        return add(attribute, bytes_of(value));
    }

    /// The message, with a number to know the answer by.
    Bytes numbered(std::uint32_t number);

private:
    template <typename T> static Bytes bytes_of(const T& value) {
        return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
    }

    void append(Bytes bytes);

    alignas(nlmsghdr) std::array<std::uint8_t, 256> bytes_{};
    size_t size_ = 0;
};

/// One message of the kernel: its fixed header and attributes. Borrows from the socket that it came
/// from; never reads beyond its own bytes.
class NetlinkMessage {
public:
    /// `bytes`: what follows nlmsghdr.
    NetlinkMessage(const nlmsghdr& head, Bytes bytes) : head_(head), bytes_(bytes) {}

    [[nodiscard]] std::uint16_t type() const { return head_.nlmsg_type; }

    /// The fixed header; zeros where the message is shorter.
    template <typename Header> [[nodiscard]] Header header() const {
        return Cursor(bytes_).little<Header>();
    }

    /// The value of an attribute behind a fixed header of `header` bytes; empty where there is
    /// none.
    [[nodiscard]] Bytes attribute(size_t header, std::uint16_t type) const;

    /// The same as a number; 0 where there is none.
    [[nodiscard]] std::uint32_t number(size_t header, std::uint16_t type) const {
        return Cursor(attribute(header, type)).little<std::uint32_t>();
    }

    /// The same as an address; none where it is as long as neither family's.
    [[nodiscard]] std::optional<IpAddress> address(size_t header, std::uint16_t type) const;

private:
    nlmsghdr head_;
    Bytes bytes_;
};

/// A socket of rtnetlink, or of another `protocol`. Messages are good until the next call. Needs no
/// rights.
class Netlink {
public:
    /// Hears of changes in `groups` (RTNLGRP_NEIGH, ...; up to 32). Throws SystemError.
    explicit Netlink(std::initializer_list<unsigned> groups = {}, int protocol = NETLINK_ROUTE);

    /// Over a socket that is open.
    explicit Netlink(FileDescriptor socket);

    /// The kernel's one answer, or nothing with its errno in `error`. An acknowledgement alone is
    /// an answer without attributes.
    std::optional<NetlinkMessage> ask(NetlinkRequest& request, int& error);

    /// The kernel's answer about an interface (ifinfomsg), or nothing with its errno in `error`.
    std::optional<NetlinkMessage> ask_link(unsigned interface, int& error);

    /// The kernel's answer about a neighbor on a link (ndmsg); nothing where it knows none in one
    /// of these states (NUD_REACHABLE, ...).
    std::optional<NetlinkMessage> ask_neighbor(unsigned interface, const IpAddress& address,
                                               unsigned states);

    /// Every object that a request with NLM_F_DUMP finds, each good within its call only; or what
    /// answers another request. Returns 0, or the errno: EINTR where the kernel's table changed
    /// meanwhile. Where it breaks off (ENOBUFS) the socket takes no other dump.
    int each(NetlinkRequest& request, const std::function<void(const NetlinkMessage&)>& take);

    /// The next message that waits; nothing, with errno, where none does.
    std::optional<NetlinkMessage> receive();

private:
    [[nodiscard]] Bytes receive_bytes();

    FileDescriptor socket_;
    std::uint32_t asked_ = 0; ///< number of the last request
    std::vector<std::uint8_t> buffer_;
};

} // namespace reprise
