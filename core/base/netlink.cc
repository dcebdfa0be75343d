#include "core/base/netlink.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <optional>
#include <sys/socket.h>
#include <sys/types.h>
#include <utility>

namespace reprise {
namespace {

constexpr size_t kLargestMessage = 32'768; ///< a link with all its attributes takes a few KiB

size_t aligned(size_t size) { return (size + NLMSG_ALIGNTO - 1) & ~size_t{NLMSG_ALIGNTO - 1}; }

} // namespace

void NetlinkRequest::append(Bytes bytes) {
    std::ranges::copy(bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += aligned(bytes.size());
}

NetlinkRequest& NetlinkRequest::add(std::uint16_t attribute, Bytes value) {
    const rtattr header{.rta_len = static_cast<std::uint16_t>(sizeof(rtattr) + value.size()),
                        .rta_type = attribute};
    append(bytes_of(header));
    append(value);
    return *this;
}

Bytes NetlinkRequest::numbered(std::uint32_t number) {
    const auto length = static_cast<std::uint32_t>(size_);
    std::memcpy(bytes_.data() + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
    std::memcpy(bytes_.data() + offsetof(nlmsghdr, nlmsg_seq), &number, sizeof number);
    return Bytes(bytes_).first(size_);
}

Bytes NetlinkMessage::attribute(size_t header, std::uint16_t type) const {
    Cursor cursor(bytes_);
    cursor.skip(aligned(header));
    while (cursor.ok() && cursor.left() >= sizeof(rtattr)) {
        const auto head = cursor.little<rtattr>();
        if (head.rta_len < sizeof head) {
            break;
        }
        const size_t size = head.rta_len - sizeof head;
        const Bytes value = cursor.take(size);
        if (cursor.ok() && (head.rta_type & NLA_TYPE_MASK) == type) {
            return value;
        }
        cursor.skip(std::min(aligned(size) - size, cursor.left()));
    }
    return {};
}

std::optional<IpAddress> NetlinkMessage::address(size_t header, std::uint16_t type) const {
    const Bytes value = attribute(header, type);
    if (value.size() == 4) {
        return IpAddress::v4(value.data());
    }
    return value.size() == 16 ? std::optional(IpAddress::v6(value.data())) : std::nullopt;
}

Netlink::Netlink(std::initializer_list<unsigned> groups, int protocol)
    : Netlink(FileDescriptor(check(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol),
                                   "open a netlink socket"))) {
    sockaddr_nl own{};
    own.nl_family = AF_NETLINK;
    for (const unsigned group : groups) {
        own.nl_groups |= 1U << (group - 1);
    }
    check(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own),
          "bind a netlink socket");
}

Netlink::Netlink(FileDescriptor socket) : socket_(std::move(socket)), buffer_(kLargestMessage) {}

std::optional<NetlinkMessage> Netlink::ask(NetlinkRequest& request, int& error) {
    NetlinkMessage answer(nlmsghdr{}, {});
    error = each(request, [&answer](const NetlinkMessage& message) { answer = message; });
    return error == 0 ? std::optional(answer) : std::nullopt;
}

std::optional<NetlinkMessage> Netlink::ask_link(unsigned interface, int& error) {
    ifinfomsg header{};
    header.ifi_index = static_cast<int>(interface);
    NetlinkRequest request(RTM_GETLINK, 0, header);
    return ask(request, error);
}

std::optional<NetlinkMessage> Netlink::ask_neighbor(unsigned interface, const IpAddress& address,
                                                    unsigned states) {
    ndmsg header{};
    header.ndm_family = socket_family(address);
    header.ndm_ifindex = static_cast<int>(interface);
    NetlinkRequest request(RTM_GETNEIGH, 0, header);
    request.add(NDA_DST, address);
    int error = 0;
    const auto answer = ask(request, error);
    const bool known = answer && answer->type() == RTM_NEWNEIGH &&
                       (answer->header<ndmsg>().ndm_state & states) != 0;
    return known ? answer : std::nullopt;
}

int Netlink::each(NetlinkRequest& request, const std::function<void(const NetlinkMessage&)>& take) {
    const Bytes question = request.numbered(++asked_);
    if (::send(socket_.get(), question.data(), question.size(), 0) < 0) {
        return errno;
    }
    unsigned flags = 0; // of all parts
    // The kernel makes further parts while one is read, so none has to be waited for. What answers
    // an earlier question, whose reading failed, is passed over.
    for (Cursor cursor(receive_bytes()); cursor.left() != 0;) {
        const size_t begin = cursor.position();
        const auto head = cursor.little<nlmsghdr>();
        const Bytes rest = cursor.take(std::max<size_t>(head.nlmsg_len, sizeof head) - sizeof head);
        const NetlinkMessage message(head, rest);
        if (!cursor.ok()) {
            break;
        }
        if (head.nlmsg_seq == asked_ && head.nlmsg_type == NLMSG_ERROR) {
            return -message.header<int>();
        }
        flags |= head.nlmsg_flags;
        if (head.nlmsg_seq == asked_ && head.nlmsg_type == NLMSG_DONE) {
            return (flags & NLM_F_DUMP_INTR) != 0 ? EINTR : 0;
        }
        if (head.nlmsg_seq == asked_) {
            take(message);
            if ((head.nlmsg_flags & NLM_F_MULTI) == 0) {
                return 0;
            }
        }
        cursor.seek(std::min(begin + aligned(head.nlmsg_len), cursor.position() + cursor.left()));
        if (cursor.left() == 0) {
            cursor = Cursor(receive_bytes());
        }
    }
    return EPROTO;
}

Bytes Netlink::receive_bytes() {
    ssize_t got = -1;
    do {
        got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return Bytes(buffer_).first(static_cast<size_t>(std::max<ssize_t>(got, 0)));
}

std::optional<NetlinkMessage> Netlink::receive() {
    const Bytes got = receive_bytes();
    Cursor cursor(got);
    const auto head = cursor.little<nlmsghdr>();
    if (!cursor.ok()) {
        return std::nullopt;
    }
    const size_t size = std::min<size_t>(head.nlmsg_len, got.size());
    return NetlinkMessage(head, cursor.take(size - std::min(size, sizeof head)));
}

} // namespace reprise
