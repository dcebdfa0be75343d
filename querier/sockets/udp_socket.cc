#include "querier/sockets/udp_socket.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "querier/sockets/transport.hh"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>

namespace reprise::querier {

bool set_option(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

namespace {

constexpr size_t kBufferSize = 65536;
/// Buffers a multiple of 4096 bytes apart would share the same few lines of the cache.
constexpr size_t kStride = kBufferSize + 192;
/// Twice as many bytes are meant. A neighbor that does not answer holds up to 208 KiB of packets
/// (net.ipv4.neigh.default.unres_qlen_bytes), which must not be all that a socket may send.
constexpr int kSendBuffer = 240 << 10;

void set_buffer(int fd, int forced, int plain, int size) {
    if (!set_option(fd, SOL_SOCKET, forced, size)) {
        set_option(fd, SOL_SOCKET, plain, size);
    }
}

} // namespace

FileDescriptor udp_socket(int family, int receive_buffer, int& error) {
    FileDescriptor fd(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    error = fd.valid() ? 0 : errno;
    if (fd.valid()) {
        // What the kernel refuses here costs precision or buffer, never correctness.
        set_option(fd.get(), SOL_SOCKET, SO_TIMESTAMPNS, 1);
        set_option(fd.get(), SOL_SOCKET, SO_RXQ_OVFL, 1);
        set_buffer(fd.get(), SO_RCVBUFFORCE, SO_RCVBUF, receive_buffer);
        set_buffer(fd.get(), SO_SNDBUFFORCE, SO_SNDBUF, kSendBuffer);
    }
    return fd;
}

bool out_of_room(int error) {
    return error == EMFILE || error == ENFILE || error == EAGAIN || error == EADDRINUSE ||
           error == EADDRNOTAVAIL;
}

bool no_buffer(int error) { return error == EAGAIN || error == ENOBUFS || error == ENOMEM; }

bool is_icmp(int error) {
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EPROTO || error == ENOPROTOOPT || error == EHOSTDOWN;
}

SendResult refusal(int error) {
    if (error == EMSGSIZE) {
        return SendResult::kOversize;
    }
    return no_buffer(error) ? SendResult::kBusy : SendResult::kFailed;
}

std::uint32_t SocketDrops::last_look(int fd) {
    std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
    socklen_t size = sizeof memory;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) < 0 || size < sizeof memory) {
        return 0;
    }
    return advance(memory[SK_MEMINFO_DROPS]);
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
        } else if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SO_RXQ_OVFL) {
            std::memcpy(&out.overflows, data, sizeof out.overflows);
            out.has_overflows = true;
        } else if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_PKTINFO) {
            out.local = IpAddress::v4(data + offsetof(in_pktinfo, ipi_addr));
        } else if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_PKTINFO) {
            out.local = IpAddress::v6(data + offsetof(in6_pktinfo, ipi6_addr));
        }
    }
    return out;
}

ReceiveBatch::ReceiveBatch(bool peers)
    : with_peers_(peers), buffers_(kSize * kStride), controls_(kSize), peers_(kSize),
      vectors_(kSize), messages_(kSize) {
    for (size_t i = 0; i < kSize; ++i) {
        vectors_[i] = {.iov_base = &buffers_[i * kStride], .iov_len = kBufferSize};
        msghdr& header = messages_[i].msg_hdr;
        header.msg_iov = &vectors_[i];
        header.msg_iovlen = 1;
        header.msg_name = peers ? &peers_[i] : nullptr;
        header.msg_control = &controls_[i];
    }
}

int ReceiveBatch::receive(int fd) {
    for (mmsghdr& message : messages_) {
        message.msg_hdr.msg_controllen = sizeof(Control);
        message.msg_hdr.msg_namelen = with_peers_ ? sizeof(sockaddr_storage) : 0;
    }
    return ::recvmmsg(fd, messages_.data(), kSize, MSG_DONTWAIT, nullptr);
}

std::span<std::uint8_t> ReceiveBatch::bytes(size_t index) {
    return {&buffers_[index * kStride], messages_[index].msg_len};
}

} // namespace reprise::querier
