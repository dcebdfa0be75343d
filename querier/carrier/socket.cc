#include "querier/carrier/socket.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "querier/carrier/carrier.hh"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace reprise::querier {

bool set_option(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

bool no_buffer(int error) { return error == EAGAIN || error == ENOBUFS || error == ENOMEM; }

SendResult refusal(int error) {
    if (error == EMSGSIZE) {
        return SendResult::kOversize;
    }
    return no_buffer(error) ? SendResult::kBusy : SendResult::kFailed;
}

Ancillary read_ancillary(const msghdr& message) {
    Ancillary out;
    auto& header = const_cast<msghdr&>(message); // CMSG_NXTHDR only reads
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
         part = CMSG_NXTHDR(&header, part)) {
        const unsigned char* const data = CMSG_DATA(part);
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_TIMESTAMPNS) {
            timespec time{};
            std::memcpy(&time, data, sizeof time);
            out.stamp = time.tv_sec * kSecond + time.tv_nsec;
        } else if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_PKTINFO) {
            out.local = IpAddress::v4(data + offsetof(in_pktinfo, ipi_addr));
        } else if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_PKTINFO) {
            out.local = IpAddress::v6(data + offsetof(in6_pktinfo, ipi6_addr));
        } else if ((part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR) ||
                   (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR)) {
            sock_extended_err error{};
            std::memcpy(&error, data, sizeof error);
            out.icmp =
                error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
        }
    }
    return out;
}

ssize_t receive(int fd, std::span<std::uint8_t> buffer, int flags, Ancillary& with) {
    iovec vector{.iov_base = buffer.data(), .iov_len = buffer.size()};
    alignas(cmsghdr) std::array<char, 256> control; // the kernel fills what is looked at
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(fd, &message, flags);
    if (got >= 0) {
        with = read_ancillary(message);
    }
    return got;
}

namespace {

int bind_source(int fd, const IpAddress& source) {
    const bool v6 = source.is_v6();
    set_option(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT, 1);
    set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    sockaddr_storage address{};
    const socklen_t size = Endpoint{.address = source, .port = 0}.to_sockaddr(address);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 ? 0 : errno;
}

} // namespace

OpenedDescriptor open_socket(int type, const Clock& clock, const Endpoint& server,
                             const IpAddress& source) {
    OpenedDescriptor out;
    sockaddr_storage address{};
    const socklen_t size = server.to_sockaddr(address);
    out.fd = FileDescriptor(::socket(address.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    out.error = !out.fd.valid()      ? errno
                : source.family == 0 ? 0
                                     : bind_source(out.fd.get(), source);
    if (out.error != 0) {
        return out;
    }
    out.call.before = clock.now();
    // Without a bind the kernel chooses the port with the peer in mind, as IP_BIND_ADDRESS_NO_PORT
    // makes a bind do.
    if (::connect(out.fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 &&
        errno != EINPROGRESS) {
        out.error = errno == EADDRNOTAVAIL ? EADDRINUSE : errno; // no port is free
    }
    out.call.after = clock.now();
    return out;
}

} // namespace reprise::querier
