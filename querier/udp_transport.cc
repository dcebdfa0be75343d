#include "querier/udp_transport.hh"

#include "core/clock.hh"
#include "core/fd.hh"
#include "querier/descriptors.hh"
#include "querier/links.hh"
#include "querier/poller.hh"
#include "querier/slots.hh"
#include "querier/stamps.hh"
#include "querier/statistics.hh"
#include "querier/transport.hh"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <netinet/in.h>
#include <span>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

namespace reprise::querier {
namespace {

/// Payload of the largest IPv4 datagram; IPv6 carries 20 bytes more, which no DNS server takes.
constexpr size_t kLargest = 65507;
constexpr int kReceiveBuffer = 4 << 20;
/// Pending ICMP errors fail a send that has nothing to do with them, each at most once.
constexpr int kSendAttempts = 4;

/// What the kernel refuses here costs precision or buffer, never correctness.
bool set_option(int fd, int name, int value) {
    return setsockopt(fd, SOL_SOCKET, name, &value, sizeof value) == 0;
}

bool out_of_room(int error) {
    return error == EMFILE || error == ENFILE || error == EAGAIN || error == EADDRINUSE ||
           error == EADDRNOTAVAIL;
}

/// No buffer now, as opposed to never.
bool busy(int error) { return error == EAGAIN || error == ENOBUFS || error == ENOMEM; }

bool is_icmp(int error) {
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EPROTO || error == ENOPROTOOPT || error == EHOSTDOWN;
}

} // namespace

UdpTransport::UdpTransport(Poller& poller, Descriptors& descriptors, Slots& slots,
                           const Servers& servers, Statistics& statistics, TransportEvents& events)
    : poller_(poller), descriptors_(descriptors), slots_(slots), servers_(servers),
      statistics_(statistics), events_(events), buffers_(kBatch * kBufferSize), controls_(kBatch),
      vectors_(kBatch), messages_(kBatch) {
    for (size_t i = 0; i < kBatch; ++i) {
        vectors_[i] = {.iov_base = &buffers_[i * kBufferSize], .iov_len = kBufferSize};
        messages_[i].msg_hdr.msg_iov = &vectors_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
    }
}

SendResult UdpTransport::open(FileDescriptor& fd, std::uint8_t family) {
    const auto& server = servers_.of(family);
    if (!server) {
        return SendResult::kFailed;
    }
    sockaddr_storage address{};
    const socklen_t size = server->to_sockaddr(address);
    fd = FileDescriptor(::socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) {
        return out_of_room(errno) ? SendResult::kNoRoom : SendResult::kFailed;
    }
    set_option(fd.get(), SO_TIMESTAMPNS, 1);
    set_option(fd.get(), SO_RXQ_OVFL, 1);
    if (!set_option(fd.get(), SO_RCVBUFFORCE, kReceiveBuffer)) {
        set_option(fd.get(), SO_RCVBUF, kReceiveBuffer);
    }
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) < 0) {
        return out_of_room(errno) ? SendResult::kNoRoom : SendResult::kFailed;
    }
    return SendResult::kDone;
}

std::uint32_t UdpTransport::adopt(FileDescriptor fd, std::uint32_t source) {
    if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(sockets_.size()));
        sockets_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    Socket& socket = sockets_[place];
    const std::uint32_t generation = socket.generation + 1;
    poller_.add(fd.get(), EPOLLIN,
                {.kind = EventKind::kUdp, .place = place, .generation = generation});
    socket = {.fd = std::move(fd),
              .source = source,
              .owner = next_owner_++,
              .generation = generation,
              .in_flight = 0,
              .overflows = 0,
              .idle = {}};
    idle_.push_back(sockets_, place);
    by_source_[source] = place;
    return place;
}

std::uint32_t UdpTransport::socket_for(std::uint32_t source, std::uint8_t family,
                                       SendResult& result) {
    if (const auto known = by_source_.find(source); known != by_source_.end()) {
        return known->second;
    }
    if (!descriptors_.take()) {
        result = SendResult::kNoRoom;
        return kNone;
    }
    FileDescriptor fd;
    result = open(fd, family);
    if (result != SendResult::kDone) {
        descriptors_.give_back();
        return kNone;
    }
    return adopt(std::move(fd), source);
}

SendResult UdpTransport::send(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.record.query_size > kLargest) {
        return SendResult::kOversize;
    }
    SendResult result = SendResult::kDone;
    const std::uint32_t place = socket_for(slot.record.source, slot.family, result);
    if (place == kNone) {
        return result;
    }
    Socket& socket = sockets_[place];
    for (int attempt = 0; attempt < kSendAttempts; ++attempt) {
        const Nanoseconds now = SteadyClock::now();
        if (::send(socket.fd.get(), slot.message, slot.record.query_size, MSG_NOSIGNAL) >= 0) {
            slot.record.send = now;
            slot.owner = socket.owner;
            slot.place = place;
            if (socket.in_flight++ == 0) {
                idle_.remove(sockets_, place);
            }
            return SendResult::kDone;
        }
        if (busy(errno)) {
            return SendResult::kBusy;
        }
        if (errno == EMSGSIZE) {
            return SendResult::kOversize;
        }
        if (!is_icmp(errno)) {
            return SendResult::kFailed;
        }
        statistics_.unreachable +=
            1; // an earlier query's error; the next attempt is this one's own
    }
    return SendResult::kFailed;
}

void UdpTransport::release(std::uint32_t place) {
    if (--sockets_[place].in_flight == 0) {
        idle_.push_back(sockets_, place);
    }
}

bool UdpTransport::evict_idle() {
    const std::uint32_t place = idle_.front();
    if (place == kNone) {
        return false;
    }
    close(place);
    ++statistics_.sockets_evicted;
    return true;
}

void UdpTransport::close(std::uint32_t place) {
    Socket& socket = sockets_[place];
    idle_.remove(sockets_, place);
    by_source_.erase(socket.source);
    socket.fd.reset();
    descriptors_.give_back();
    free_.push_back(place);
}

void UdpTransport::receive(const EventTag& tag, const StampClock& stamps) {
    Socket& socket = sockets_[tag.place];
    if ((socket.generation & 0xffffffU) != tag.generation || !socket.fd.valid()) {
        return;
    }
    for (size_t i = 0; i < kBatch; ++i) {
        messages_[i].msg_hdr.msg_control = &controls_[i];
        messages_[i].msg_hdr.msg_controllen = sizeof(Control);
    }
    const int count = ::recvmmsg(socket.fd.get(), messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (count >= 0) {
        take_batch(socket, count, stamps);
    } else if (is_icmp(errno)) {
        ++statistics_.unreachable; // the query it belongs to times out like any other
    }
}

void UdpTransport::take_batch(Socket& socket, int count, const StampClock& stamps) {
    const std::uint32_t owner = socket.owner;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const Nanoseconds stamp = read_control(socket, messages_[i].msg_hdr);
        events_.on_reply(owner, {&buffers_[i * kBufferSize], messages_[i].msg_len},
                         stamps.convert(stamp));
    }
}

Nanoseconds UdpTransport::read_control(Socket& socket, msghdr& message) {
    Nanoseconds stamp = 0;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET) {
            continue;
        }
        if (part->cmsg_type == SCM_TIMESTAMPNS) {
            timespec time{};
            std::memcpy(&time, CMSG_DATA(part), sizeof time);
            stamp = time.tv_sec * kSecond + time.tv_nsec;
        } else if (part->cmsg_type == SO_RXQ_OVFL) {
            std::uint32_t total = 0;
            std::memcpy(&total, CMSG_DATA(part), sizeof total);
            statistics_.receive_overflows += total - socket.overflows;
            socket.overflows = total;
        }
    }
    return stamp;
}

} // namespace reprise::querier
