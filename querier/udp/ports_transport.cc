#include "querier/udp/ports_transport.hh"

#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "querier/network/network.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/sockets/descriptors.hh"
#include "querier/sockets/owner.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/stamps.hh"
#include "querier/sockets/transport.hh"
#include "querier/sockets/udp_socket.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

namespace reprise::querier {
namespace {

constexpr int kPortReceiveBuffer = 4 << 20;
/// Pending ICMP errors fail a send that has nothing to do with them, each at most once.
constexpr unsigned kSendTries = 4;

} // namespace

PortsTransport::PortsTransport(Poller& poller, const Clock& clock, const UdpWish& wish,
                               const UdpParts& parts)
    : poller_(poller), clock_(clock), descriptors_(parts.descriptors), queries_(parts.queries),
      servers_(wish.servers), statistics_(parts.statistics), events_(parts.events),
      number_(wish.number) {
    staged_.reserve(kMostStaged);
    for (size_t i = 0; i < kMostStaged; ++i) {
        messages_[i].msg_hdr.msg_iov = &vectors_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
    }
}

// Sockets

SendResult PortsTransport::open(FileDescriptor& fd, std::uint8_t family) {
    const auto& server = servers_.of(family);
    if (!server) {
        return SendResult::kFailed;
    }
    sockaddr_storage address{};
    const socklen_t size = server->to_sockaddr(address);
    int error = 0;
    fd = udp_socket(address.ss_family, kPortReceiveBuffer, error);
    if (fd.valid() && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) < 0) {
        error = errno;
    }
    if (error == 0) {
        return SendResult::kDone;
    }
    return out_of_room(error) ? SendResult::kNoRoom : SendResult::kFailed;
}

std::uint32_t PortsTransport::adopt(FileDescriptor fd, std::uint32_t source) {
    if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(sockets_.size()));
        sockets_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    Socket& socket = sockets_[place];
    const std::uint32_t generation = socket.generation + 1;
    poller_.add(
        fd.get(), EPOLLIN,
        {.kind = EventKind::kUdp, .peer = number_, .place = place, .generation = generation});
    socket = {.fd = std::move(fd),
              .source = source,
              .generation = generation,
              .owner = owner_of((++last_owner_ << 8U) | number_, kOwnerSocket),
              .in_flight = 0,
              .drops = {},
              .idle = {}};
    idle_.push_back(sockets_, place);
    by_source_[source] = place;
    return place;
}

std::uint32_t PortsTransport::socket_for(std::uint32_t source, std::uint8_t family,
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

void PortsTransport::release(std::uint32_t place) {
    if (--sockets_[place].in_flight == 0) {
        idle_.push_back(sockets_, place);
    }
}

bool PortsTransport::evict_idle() {
    const std::uint32_t place = idle_.front();
    if (place == kNone) {
        return false;
    }
    close(place);
    ++statistics_.sockets_evicted;
    return true;
}

void PortsTransport::close(std::uint32_t place) {
    Socket& socket = sockets_[place];
    idle_.remove(sockets_, place);
    by_source_.erase(socket.source);
    statistics_.receive_overflows += socket.drops.last_look(socket.fd.get());
    socket.fd.reset();
    descriptors_.give_back();
    free_.push_back(place);
}

// Sending

SendResult PortsTransport::stage(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (pending.record.query_size > kLargestDatagram) {
        return SendResult::kOversize;
    }
    SendResult result = SendResult::kDone;
    const std::uint32_t place = socket_for(pending.record.source, pending.family(), result);
    if (place == kNone) {
        return result;
    }
    Socket& socket = sockets_[place];
    pending.owner = socket.owner;
    pending.place = place;
    if (socket.in_flight++ == 0) {
        idle_.remove(sockets_, place);
    }
    staged_.push_back(
        {.place = place, .pending = index, .order = static_cast<std::uint32_t>(staged_.size())});
    return SendResult::kDone;
}

void PortsTransport::prepare(std::uint32_t source, std::uint8_t family) {
    SendResult result = SendResult::kDone;
    socket_for(source, family, result);
}

void PortsTransport::rehearse(std::uint32_t index) {
    const PendingQuery& pending = queries_[index];
    SendResult result = SendResult::kDone;
    const std::uint32_t place = socket_for(pending.record.source, pending.family(), result);
    if (place != kNone && sockets_[place].in_flight == 0) {
        ::send(sockets_[place].fd.get(), nullptr, 0, kSendNothing);
    }
}

void PortsTransport::flush() {
    if (staged_.size() > 1) {
        // One system call for what one socket has to send; a source's order stays.
        std::ranges::sort(staged_, {},
                          [](const Staged& one) { return std::pair(one.place, one.order); });
    }
    busy_ = false;
    Nanoseconds now = clock_.now();
    std::span<const Staged> left(staged_);
    while (!left.empty()) {
        const auto end = std::ranges::find_if(
            left, [&](const Staged& one) { return one.place != left.front().place; });
        const auto count = static_cast<size_t>(end - left.begin());
        now = send_run(left.first(count), now);
        left = left.subspan(count);
    }
    staged_.clear();
}

int PortsTransport::send_some(int fd, std::span<const Staged> run) {
    if (run.size() == 1) {
        const PendingQuery& pending = queries_[run.front().pending];
        return ::send(fd, pending.message, pending.record.query_size, MSG_NOSIGNAL) < 0 ? -1 : 1;
    }
    const size_t count = std::min(run.size(), kMostInCall);
    for (size_t i = 0; i < count; ++i) {
        const PendingQuery& pending = queries_[run[i].pending];
        vectors_[i] = {.iov_base = const_cast<std::uint8_t*>(pending.message),
                       .iov_len = pending.record.query_size};
    }
    return ::sendmmsg(fd, messages_.data(), static_cast<unsigned>(count), MSG_NOSIGNAL);
}

/// A full buffer is the socket's own; without memory the others need not try.
void PortsTransport::refuse(std::span<const Staged> run, int error) {
    busy_ = no_buffer(error) && error != EAGAIN;
    for (const Staged& one : run) {
        release(one.place);
        events_.on_refused(one.pending, refusal(error));
    }
}

Nanoseconds PortsTransport::send_run(std::span<const Staged> run, Nanoseconds now) {
    const std::uint32_t place = run.front().place;
    unsigned attempts = 0;
    while (!run.empty()) {
        const int sent = busy_ ? -1 : send_some(sockets_[place].fd.get(), run);
        const int error = busy_ ? ENOBUFS : errno;
        const Nanoseconds after = clock_.now();
        if (sent < 0 && is_icmp(error) && ++attempts < kSendTries) {
            continue; // an earlier query's error, maybe; then the next attempt is our own
        }
        size_t settled = static_cast<size_t>(std::max(sent, 0));
        for (const Staged& one : run.first(settled)) {
            events_.on_sent(one.pending, {.before = now, .after = after});
        }
        if (sent < 0) {
            settled = no_buffer(error) ? run.size() : 1; // in their order, or each for itself
            refuse(run.first(settled), error);
        } else {
            statistics_.unreachable += std::exchange(attempts, 0U);
        }
        run = run.subspan(settled);
        now = after;
    }
    return now;
}

// Receiving

bool PortsTransport::receive(const EventTag& tag, const StampClock& stamps) {
    Socket& socket = sockets_[tag.place];
    if ((socket.generation & 0xffffffU) != tag.generation || !socket.fd.valid()) {
        return true;
    }
    const int count = batch_.receive(socket.fd.get());
    if (count >= 0) {
        take_batch(socket, static_cast<size_t>(count), stamps);
    } else if (is_icmp(errno)) {
        ++statistics_.unreachable; // the query it belongs to times out like any other
        return false;
    }
    return count < static_cast<int>(ReceiveBatch::kSize);
}

void PortsTransport::count_drops() {
    for (Socket& socket : sockets_) {
        if (socket.fd.valid()) {
            statistics_.receive_overflows += socket.drops.last_look(socket.fd.get());
        }
    }
}

void PortsTransport::take_batch(Socket& socket, size_t count, const StampClock& stamps) {
    const Owner owner = socket.owner;
    for (size_t i = 0; i < count; ++i) {
        const Ancillary with = read_ancillary(batch_.message(i));
        if (with.has_overflows) {
            statistics_.receive_overflows += socket.drops.advance(with.overflows);
        }
        const auto bytes = batch_.bytes(i);
        events_.on_reply(
            owner, {.bytes = bytes, .size = bytes.size(), .received = stamps.convert(with.stamp)});
    }
}

} // namespace reprise::querier
