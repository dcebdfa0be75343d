#include "cli/native/sock_diag.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/types.h>

namespace reprise::sampler {

namespace {

constexpr size_t kBuffer = size_t{1} << 20; // the kernel fills pieces of at most 32 KiB

/// The older of the two requests: only that one asks for both families at once.
struct Request {
    nlmsghdr header;
    inet_diag_req body;
};

constexpr size_t aligned(size_t length) { return (length + 3) & ~size_t{3}; }

Request make_request(std::uint32_t mask) {
    Request request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = TCPDIAG_GETSOCK;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.body.idiag_states = mask;
    return request;
}

} // namespace

bool add_sockets(Bytes datagram, StateCounts& counts) {
    while (datagram.size() >= sizeof(nlmsghdr)) {
        nlmsghdr header{};
        std::memcpy(&header, datagram.data(), sizeof header);
        if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR ||
            header.nlmsg_len < sizeof header || header.nlmsg_len > datagram.size()) {
            return true;
        }
        constexpr size_t kState = sizeof header + offsetof(inet_diag_msg, idiag_state);
        if (header.nlmsg_len > kState) {
            ++counts[datagram[kState] % counts.size()];
        }
        datagram = datagram.subspan(std::min(aligned(header.nlmsg_len), datagram.size()));
    }
    return false;
}

SockDiag::SockDiag()
    : socket_(check(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG),
                    "open a sock_diag socket")),
      buffer_(kBuffer) {}

StateCounts SockDiag::count(std::uint32_t mask) {
    const Request request = make_request(mask);
    check(::send(socket_.get(), &request, sizeof request, 0), "ask sock_diag");
    StateCounts counts{};
    for (;;) {
        const ssize_t got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        check(got, "read from sock_diag");
        if (add_sockets({buffer_.data(), static_cast<size_t>(got)}, counts)) {
            return counts;
        }
    }
}

} // namespace reprise::sampler
