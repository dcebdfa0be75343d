#include "querier/tcp_transport.hh"

#include "core/address.hh"
#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/fd.hh"
#include "core/log.hh"
#include "core/result_file.hh"
#include "querier/connection_queue.hh"
#include "querier/descriptors.hh"
#include "querier/links.hh"
#include "querier/matcher.hh"
#include "querier/owner.hh"
#include "querier/poller.hh"
#include "querier/question.hh"
#include "querier/slots.hh"
#include "querier/statistics.hh"
#include "querier/transport.hh"
#include "querier/udp_socket.hh"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <span>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

constexpr size_t kReadSize = 65536;
/// Idle connections closed in one turn: a close takes microseconds, and sending waits for it.
constexpr unsigned kMostIdleCloses = 32;
constexpr std::uint32_t kReadable = EPOLLIN | EPOLLRDHUP;

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

int socket_error(int fd) {
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/// Length, message, and the id as it goes on the wire.
void encode(std::vector<std::uint8_t>& out, const Slot& slot) {
    const Bytes message = slot.bytes();
    out.resize(message.size() + 2);
    out[0] = static_cast<std::uint8_t>(message.size() >> 8U);
    out[1] = static_cast<std::uint8_t>(message.size());
    std::ranges::copy(message, out.begin() + 2);
    if (message.size() >= 2) {
        out[2] = static_cast<std::uint8_t>(slot.wire_id >> 8U);
        out[3] = static_cast<std::uint8_t>(slot.wire_id);
    }
}

} // namespace

TcpTransport::TcpTransport(Poller& poller, Descriptors& descriptors, Slots& slots, Matcher& matcher,
                           const Servers& servers, Nanoseconds idle_timeout, Statistics& statistics,
                           TransportEvents& events, SourceOf source)
    : poller_(poller), descriptors_(descriptors), slots_(slots), matcher_(matcher),
      servers_(servers), idle_timeout_(idle_timeout), statistics_(statistics), events_(events),
      source_(std::move(source)), buffer_(kReadSize) {}

// Opening and closing

SendResult TcpTransport::connect(FileDescriptor& fd, const Slot& slot, Nanoseconds& syn) {
    const auto& server = servers_.of(slot.family());
    if (!server) {
        return SendResult::kFailed;
    }
    sockaddr_storage address{};
    const socklen_t size = server->to_sockaddr(address);
    fd = FileDescriptor(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) {
        return out_of_descriptors(errno) ? SendResult::kNoRoom : SendResult::kFailed;
    }
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (const SendResult bound = source_ ? bind_source(fd.get(), slot) : SendResult::kDone;
        bound != SendResult::kDone) {
        return bound;
    }
    syn = SteadyClock::now();
    // Without a bind the kernel chooses the port with the peer in mind, as IP_BIND_ADDRESS_NO_PORT
    // would make a bind do.
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 ||
        errno == EINPROGRESS) {
        return SendResult::kDone;
    }
    if (!std::exchange(warned_, true)) {
        spdlog::warn("event=connect_failed server={} because={}", server->text(),
                     quoted(std::strerror(errno)));
    }
    return SendResult::kFailed;
}

/// The port is chosen by connect, with the peer in mind.
SendResult TcpTransport::bind_source(int fd, const Slot& slot) {
    const auto source = source_(slot);
    if (!source) {
        return SendResult::kNoAddress;
    }
    const bool v6 = source->is_v6();
    set_option(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT, 1);
    set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    sockaddr_storage address{};
    const socklen_t size = Endpoint{.address = *source, .port = 0}.to_sockaddr(address);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) {
        return SendResult::kDone;
    }
    if (!std::exchange(warned_, true)) {
        spdlog::warn("event=bind_failed source={} because={}", source->text(),
                     quoted(std::strerror(errno)));
    }
    return SendResult::kFailed;
}

std::uint32_t TcpTransport::adopt(FileDescriptor fd, std::uint32_t slot, Nanoseconds syn) {
    if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(connections_.size()));
        connections_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    const std::uint32_t generation = connections_[place].generation + 1;
    poller_.add(fd.get(), kReadable | EPOLLOUT,
                {.kind = EventKind::kTcp, .place = place, .generation = generation});
    Connection fresh;
    fresh.fd = std::move(fd);
    fresh.source = slots_[slot].record.source;
    fresh.number = ++last_number_;
    fresh.generation = generation;
    fresh.opener = slot;
    fresh.writable_wanted = true;
    fresh.syn = syn;
    connections_[place] = std::move(fresh);
    by_source_[slots_[slot].record.source] = place;
    ++statistics_.connections_opened;
    statistics_.peak_open = std::max(statistics_.peak_open, ++statistics_.open_now);
    return place;
}

std::uint32_t TcpTransport::connection_for(std::uint32_t index, SendResult& result) {
    Slot& slot = slots_[index];
    if (const auto known = by_source_.find(slot.record.source); known != by_source_.end()) {
        statistics_.reused_queries += (slot.record.marks & kMarkReused) == 0 ? 1U : 0U;
        slot.record.marks |= kMarkReused;
        return known->second;
    }
    if (!descriptors_.take()) {
        result = SendResult::kNoRoom;
        return kNone;
    }
    FileDescriptor fd;
    Nanoseconds syn = 0;
    result = connect(fd, slot, syn);
    if (result != SendResult::kDone) {
        descriptors_.give_back();
        return kNone;
    }
    slot.record.marks |= kMarkOpened;
    if (slot.record.send == 0) {
        slot.record.send = syn; // the first action for this query
    }
    return adopt(std::move(fd), index, syn);
}

void TcpTransport::close(std::uint32_t place) {
    Connection& connection = connections_[place];
    set_idle(place, false);
    by_source_.erase(connection.source);
    const std::uint32_t generation = connection.generation;
    connection = {};
    connection.generation = generation;
    descriptors_.give_back();
    free_.push_back(place);
    --statistics_.open_now;
}

void TcpTransport::lose(std::uint32_t place) {
    const bool established = connections_[place].established;
    statistics_.closed_by_server += established ? 1U : 0U;
    const ConnectionQueue::Loss loss = connections_[place].queue.lose(slots_, established);
    close(place);
    for (const std::uint32_t slot : loss.failed) {
        slots_[slot].place = kNone;
        events_.on_failed(slot, Status::kConnectionFailed);
    }
    for (const std::uint32_t slot : loss.retry) {
        matcher_.remove(slot);
        slots_[slot].place = kNone;
        statistics_.retried += slots_[slot].flying ? 1U : 0U;
        if (attach(slot) != SendResult::kDone) {
            events_.on_failed(slot, Status::kConnectionFailed);
        }
    }
}

void TcpTransport::set_idle(std::uint32_t place, bool idle) {
    Connection& connection = connections_[place];
    if (idle == connection.is_idle) {
        return;
    }
    connection.is_idle = idle;
    if (idle) {
        connection.idle_since = SteadyClock::now();
        idle_.push_back(connections_, place);
    } else {
        idle_.remove(connections_, place);
    }
}

void TcpTransport::close_idle(Nanoseconds now) {
    for (unsigned i = 0; i < kMostIdleCloses && next_idle() <= now; ++i) {
        close(idle_.front());
        ++statistics_.closed_idle;
    }
}

Nanoseconds TcpTransport::next_idle() const {
    return idle_.empty() ? std::numeric_limits<Nanoseconds>::max()
                         : connections_[idle_.front()].idle_since + idle_timeout_;
}

bool TcpTransport::evict_idle() {
    if (idle_.empty()) {
        return false;
    }
    close(idle_.front());
    ++statistics_.sockets_evicted;
    return true;
}

// Queries

SendResult TcpTransport::attach(std::uint32_t slot) {
    SendResult result = SendResult::kDone;
    const std::uint32_t place = connection_for(slot, result);
    if (place == kNone) {
        return result;
    }
    slots_[slot].place = place;
    slots_[slot].record.connection = connections_[place].number;
    connections_[place].queue.enqueue(slots_, slot);
    set_idle(place, false);
    return SendResult::kDone;
}

SendResult TcpTransport::submit(std::uint32_t slot) {
    const SendResult result = attach(slot);
    if (result == SendResult::kDone && connections_[slots_[slot].place].established) {
        write(slots_[slot].place);
    }
    return result;
}

void TcpTransport::detach(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.place == kNone) {
        return;
    }
    Connection& connection = connections_[slot.place];
    connection.queue.remove(slots_, index);
    if (connection.opener == index) {
        connection.opener = kNone;
    }
    set_idle(slot.place, connection.queue.idle());
    slot.place = kNone;
}

bool TcpTransport::connect_timed_out(std::uint32_t index) {
    const std::uint32_t place = slots_[index].place;
    if (place == kNone || connections_[place].opener != index) {
        return false;
    }
    lose(place);
    return true;
}

// Writing

/// A free id for the query, its own where possible. With all 65,536 ids in flight it keeps its own
/// and equal keys match in order.
void TcpTransport::prepare(const Connection& connection, Slot& slot) {
    const std::uint16_t own = message_id(slot.bytes());
    const Owner owner = owner_of(connection.number, kOwnerConnection);
    std::uint16_t id = own;
    while (matcher_.id_in_use(owner, id) && static_cast<std::uint16_t>(id + 1) != own) {
        ++id;
    }
    slot.owner = owner;
    slot.wire_id = matcher_.id_in_use(owner, id) ? own : id;
    if (slot.wire_id != own) {
        slot.record.marks |= kMarkIdRewritten;
    }
    encode(segment_, slot);
}

bool TcpTransport::write_one(std::uint32_t place, std::uint32_t index) {
    Connection& connection = connections_[place];
    Slot& slot = slots_[index];
    prepare(connection, slot);
    const Nanoseconds now = SteadyClock::now();
    const ssize_t sent =
        ::send(connection.fd.get(), segment_.data(), segment_.size(), MSG_NOSIGNAL);
    if (sent < 0 && would_block(errno)) {
        return false;
    }
    connection.queue.started(slots_, index);
    if (sent < 0) {
        lose(place);
        return false;
    }
    if (slot.record.send == 0) {
        slot.record.send = now;
    }
    connection.tail.assign(segment_.begin() + sent, segment_.end());
    events_.on_written(index);
    return connection.tail.empty();
}

void TcpTransport::write(std::uint32_t place) {
    const std::uint32_t generation = connections_[place].generation;
    if (!flush_tail(connections_[place])) {
        lose(place);
        return;
    }
    while (connections_[place].tail.empty() && connections_[place].queue.next() != kNone &&
           write_one(place, connections_[place].queue.next())) {
    }
    const Connection& connection = connections_[place];
    if (connection.generation == generation && connection.fd.valid()) {
        want_writable(place, !connection.tail.empty() || connection.queue.next() != kNone);
    }
}

bool TcpTransport::flush_tail(Connection& connection) {
    if (connection.tail.empty()) {
        return true;
    }
    const ssize_t sent =
        ::send(connection.fd.get(), connection.tail.data(), connection.tail.size(), MSG_NOSIGNAL);
    if (sent < 0) {
        return would_block(errno);
    }
    connection.tail.erase(connection.tail.begin(), connection.tail.begin() + sent);
    return true;
}

void TcpTransport::want_writable(std::uint32_t place, bool wanted) {
    Connection& connection = connections_[place];
    if (wanted != connection.writable_wanted) {
        connection.writable_wanted = wanted;
        poller_.change(
            connection.fd.get(), kReadable | (wanted ? EPOLLOUT : 0U),
            {.kind = EventKind::kTcp, .place = place, .generation = connection.generation});
    }
}

// Events

void TcpTransport::finish_connect(std::uint32_t place) {
    Connection& connection = connections_[place];
    if (const int error = socket_error(connection.fd.get()); error != 0) {
        if (!std::exchange(warned_, true)) {
            spdlog::warn("event=connect_failed because={}", quoted(std::strerror(error)));
        }
        lose(place);
        return;
    }
    connection.established = true;
    if (connection.opener != kNone) {
        slots_[connection.opener].record.connect = SteadyClock::now() - connection.syn;
        connection.opener = kNone;
    }
    write(place);
}

void TcpTransport::read(std::uint32_t place) {
    const int fd = connections_[place].fd.get();
    const ssize_t got = ::recv(fd, buffer_.data(), buffer_.size(), 0);
    if (got < 0 && would_block(errno)) {
        return;
    }
    if (got <= 0) {
        lose(place);
        return;
    }
    const Nanoseconds now = SteadyClock::now();
    const Owner owner = owner_of(connections_[place].number, kOwnerConnection);
    const std::span<std::uint8_t> data(buffer_.data(), static_cast<size_t>(got));
    const bool good = connections_[place].replies.feed(data, [&](std::span<std::uint8_t> reply) {
        events_.on_reply(owner, {.bytes = reply, .size = reply.size(), .received = now});
    });
    if (!good) {
        ++statistics_.bad_streams;
        lose(place);
    }
}

void TcpTransport::handle(const EventTag& tag, std::uint32_t events) {
    const auto current = [&] {
        return (connections_[tag.place].generation & 0xffffffU) == tag.generation &&
               connections_[tag.place].fd.valid();
    };
    if (!current()) {
        return;
    }
    if (!connections_[tag.place].established) {
        finish_connect(tag.place);
        return;
    }
    if ((events & EPOLLOUT) != 0) {
        write(tag.place);
    }
    if (current() && (events & ~std::uint32_t{EPOLLOUT}) != 0) {
        read(tag.place);
    }
}

} // namespace reprise::querier
