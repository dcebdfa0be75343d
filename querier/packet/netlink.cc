#include "querier/packet/netlink.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <optional>
#include <sys/socket.h>

namespace reprise::querier {
namespace {

constexpr size_t kHeader = NLMSG_HDRLEN;
constexpr size_t kLargestAnswer = 32768; ///< a link with all its attributes takes a few KiB

size_t aligned(size_t size) { return (size + NLMSG_ALIGNTO - 1) & ~size_t{NLMSG_ALIGNTO - 1}; }

} // namespace

void NetlinkRequest::append(Bytes bytes) {
    std::ranges::copy(bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += aligned(bytes.size());
    const auto length = static_cast<std::uint32_t>(size_);
    std::memcpy(bytes_.data(), &length, sizeof length); // nlmsg_len comes first
}

void NetlinkRequest::begin(std::uint16_t type, std::uint16_t flags, Bytes header) {
    const nlmsghdr message{.nlmsg_len = 0,
                           .nlmsg_type = type,
                           .nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags),
                           .nlmsg_seq = 0,
                           .nlmsg_pid = 0};
    append({reinterpret_cast<const std::uint8_t*>(&message), sizeof message});
    append(header);
}

void NetlinkRequest::add(std::uint16_t attribute, Bytes value) {
    const rtattr header{.rta_len = static_cast<std::uint16_t>(sizeof(rtattr) + value.size()),
                        .rta_type = attribute};
    append({reinterpret_cast<const std::uint8_t*>(&header), sizeof header});
    append(value);
}

Bytes NetlinkAnswer::attribute(size_t header, std::uint16_t type) const {
    Cursor cursor(bytes_);
    cursor.skip(aligned(header));
    while (cursor.ok() && cursor.left() >= sizeof(rtattr)) {
        const auto length = cursor.little<std::uint16_t>();
        const auto found = cursor.little<std::uint16_t>();
        const size_t size = std::max<size_t>(length, sizeof(rtattr)) - sizeof(rtattr);
        const Bytes value = cursor.take(size);
        if (cursor.ok() && (found & NLA_TYPE_MASK) == type) {
            return value;
        }
        cursor.skip(std::min(aligned(size) - size, cursor.left()));
    }
    return {};
}

std::uint32_t NetlinkAnswer::number(size_t header, std::uint16_t type) const {
    Cursor cursor(attribute(header, type));
    return cursor.little<std::uint32_t>();
}

Netlink::Netlink()
    : socket_(check(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE),
                    "open a netlink socket")) {}

std::optional<NetlinkAnswer> Netlink::ask(const NetlinkRequest& request, int& error) {
    const Bytes question = request.bytes();
    check(::send(socket_.get(), question.data(), question.size(), 0), "ask the kernel (netlink)");
    std::array<std::uint8_t, kLargestAnswer> buffer{};
    const auto size =
        check(::recv(socket_.get(), buffer.data(), buffer.size(), 0), "hear the kernel (netlink)");
    Cursor cursor({buffer.data(), static_cast<size_t>(size)});
    const auto head = cursor.little<nlmsghdr>();
    if (!cursor.ok() || head.nlmsg_len < kHeader || head.nlmsg_len > static_cast<size_t>(size)) {
        error = EPROTO;
        return std::nullopt;
    }
    if (head.nlmsg_type != NLMSG_ERROR) {
        error = 0;
        return NetlinkAnswer({buffer.data() + kHeader, head.nlmsg_len - kHeader});
    }
    error = -cursor.little<int>();
    return error == 0 ? std::optional(NetlinkAnswer(Bytes{})) : std::nullopt;
}

} // namespace reprise::querier
