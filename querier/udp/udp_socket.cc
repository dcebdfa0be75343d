#include "core/base/clock.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"
#include "querier/results/results.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/udp/udp_carriers.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

namespace reprise::querier {
namespace {

/// Twice as many bytes are meant. A neighbor that does not answer holds up to 208 KiB of packets
/// (net.ipv4.neigh.default.unres_qlen_bytes), which must not be all that a socket may send.
constexpr int kSendBuffer = 240 << 10;
/// Pending ICMP errors fail a send that has nothing to do with them, each at most once.
constexpr unsigned kSendTries = 4;

void set_buffer(int fd, int forced, int plain, int size) {
    if (!set_option(fd, SOL_SOCKET, forced, size)) {
        set_option(fd, SOL_SOCKET, plain, size);
    }
}

/// Larger than the link's packets: this one only may go in fragments.
int send_in_fragments(int fd, mmsghdr& message) {
    may_fragment(fd, true);
    const int sent = ::sendmmsg(fd, &message, 1, MSG_NOSIGNAL);
    const int error = errno;
    may_fragment(fd, false);
    errno = error;
    return sent;
}

} // namespace

void ready_for_datagrams(int fd, int receive_buffer) {
    // What the kernel refuses here costs precision or buffer, never correctness.
    set_option(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, receive_buffer);
    set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, kSendBuffer);
}

bool is_icmp(int error) {
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EPROTO || error == ENOPROTOOPT || error == EHOSTDOWN;
}

void may_fragment(int fd, bool may) {
    set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, may ? IP_PMTUDISC_WANT : IP_PMTUDISC_DO);
}

std::uint32_t dropped_on(int fd) {
    std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
    socklen_t size = sizeof memory;
    getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory.data(), &size); // where it fails: 0
    return memory[SK_MEMINFO_DROPS];
}

// Sending

SendBatch::SendBatch(const CarrierParts& parts, bool connected)
    : parts_(parts), clock_(parts.network.clock()), connected_(connected) {
    for (size_t i = 0; i < messages_.size(); ++i) {
        messages_[i].msg_hdr.msg_iov = &vectors_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
    }
}

msghdr& SendBatch::add(std::uint32_t pending) {
    const PendingQuery& query = parts_.queries[pending];
    pending_[count_] = pending;
    vectors_[count_] = {.iov_base = const_cast<std::uint8_t*>(query.message),
                        .iov_len = query.record.query_size};
    return messages_[count_++].msg_hdr;
}

bool SendBatch::send(int fd, Nanoseconds& now) {
    const int error = send_in_order(std::span(pending_).first(count_), clock_, parts_.events, now,
                                    [this, fd](size_t first) { return hand_over(fd, first); });
    count_ = 0;
    return !no_buffer(error) || error == EAGAIN; // a full buffer is the socket's own
}

int SendBatch::call(int fd, size_t first) {
    const size_t count = std::min(count_ - first, kMostInCall);
    if (count == 1 && connected_) {
        const iovec& only = vectors_[first];
        return ::send(fd, only.iov_base, only.iov_len, MSG_NOSIGNAL) < 0 ? -1 : 1;
    }
    return ::sendmmsg(fd, &messages_[first], static_cast<unsigned>(count), MSG_NOSIGNAL);
}

int SendBatch::hand_over(int fd, size_t first) {
    unsigned tries = 0;
    int sent = call(fd, first);
    while (sent < 0 && is_icmp(errno) && ++tries < kSendTries) {
        sent = call(fd, first); // an earlier query's error, maybe; then this attempt is our own
    }
    if (sent < 0 && errno == EMSGSIZE && !connected_) {
        sent = send_in_fragments(fd, messages_[first]);
    }
    if (sent < 0) {
        return -errno;
    }
    parts_.statistics.unreachable += connected_ ? tries : 0U;
    return sent;
}

void SendBatch::refuse(int error) {
    for (const std::uint32_t one : std::span(pending_).first(std::exchange(count_, 0))) {
        parts_.events.on_refused(one, refusal(error));
    }
}

// Receiving

ReceiveBatch::ReceiveBatch(const CarrierParts& parts, bool peers)
    : parts_(parts), with_peers_(peers), buffers_(kSize * kStride), controls_(kSize), peers_(kSize),
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

} // namespace reprise::querier
