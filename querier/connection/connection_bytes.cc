// What travels on connections: handshakes, answers, queries.
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/result_file.hh"
#include "querier/connection/connection_queue.hh"
#include "querier/connection/connection_transport.hh"
#include "querier/connection/tls_connection.hh"
#include "querier/network/tcp_socket.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/sockets/owner.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/stamps.hh"
#include "querier/sockets/transport.hh"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <sys/epoll.h>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

/// Full buffers read from one connection before others get their turn.
constexpr int kReadsAtOnce = 8;
constexpr std::uint32_t kEnded = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

constexpr int kMostIdsTried = 64;
/// Of what a server that does not read makes us owe it, besides one query.
constexpr std::size_t kMostOwed = std::size_t{1} << 18U;

constexpr std::string_view kBadMessage = "a length below 12, or no DNS";
constexpr std::string_view kClosedByServer = "closed by the server with queries unanswered";

/// Length, message, and the id as it goes on the wire.
void encode(std::vector<std::uint8_t>& out, const PendingQuery& pending) {
    const Bytes message = pending.bytes();
    out.resize(message.size() + 2);
    store16(out.data(), message.size());
    std::ranges::copy(message, out.begin() + 2);
    if (message.size() >= 2) {
        store16(out.data() + 2, pending.wire_id);
    }
}

} // namespace

bool ConnectionTransport::handle(const EventTag& tag, std::uint32_t events) {
    unread_ = false;
    const auto current = [&] {
        return (connections_[tag.place].generation & 0xffffffU) == tag.generation &&
               connections_[tag.place].socket;
    };
    if (current() && !connections_[tag.place].connected) {
        finish_connect(tag.place, events);
    } else if (current() && (events & EPOLLOUT) != 0 && (events & kEnded) == 0) {
        write(tag.place);
    }
    if (current() && (events & ~std::uint32_t{EPOLLOUT}) != 0) {
        read(tag.place, events);
    }
    settle();
    return !unread_;
}

// Opening

void ConnectionTransport::finish_connect(std::uint32_t place, std::uint32_t events) {
    Connection& connection = connections_[place];
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        const int error = connection.socket->take_error();
        if (error == 0 || error == ECONNRESET) {
            // It stood for a moment. Whether we saw that is luck, and should not show.
            on_established_too_late(connection);
        }
        lose(place, error == 0 ? kClosedByServer : std::strerror(error));
    } else if ((events & EPOLLOUT) != 0) {
        connection.connected = true;
        connection.secure ? start_tls(place) : on_established(place);
    }
}

void ConnectionTransport::on_established(std::uint32_t place) {
    Connection& connection = connections_[place];
    connection.established = true;
    --opening_;
    if (connection.opener != kNone) {
        queries_[connection.opener].record.connect = clock_.now() - connection.syn;
        connection.opener = kNone;
    }
    write(place);
}

/// The server ended the connection before a query could be written: as if it had been.
void ConnectionTransport::on_established_too_late(Connection& connection) {
    connection.established = true;
    --opening_;
    connection.queue.start_all(queries_);
}

void ConnectionTransport::start_tls(std::uint32_t place) {
    Connection& connection = connections_[place];
    connection.tls = std::make_unique<TlsConnection>(*tls_, connection.source, connection.server);
    write_early(connection);
    shake_hands(place);
}

/// The queries that wait travel with the first flight, where the session allows it.
void ConnectionTransport::write_early(Connection& connection) {
    while (connection.tls->early_room() > 0 && connection.queue.next() != kNone) {
        const std::uint32_t index = connection.queue.next();
        prepare(connection, queries_[index]);
        if (!connection.tls->seal_early(segment_)) {
            return;
        }
        PendingQuery& pending = queries_[index];
        pending.record.marks |= kMarkEarlyData;
        if (pending.record.send == 0) {
            pending.record.send = clock_.now();
        }
        ++connection.written;
        connection.queue.started(queries_, index);
        events_.on_written(index);
    }
}

/// What is to be sent lies in the TLS client's buffer until the first query joins it.
void ConnectionTransport::shake_hands(std::uint32_t place) {
    Connection& connection = connections_[place];
    switch (connection.tls->handshake()) {
    case TlsConnection::Result::kDone:
        settle_early_data(connection);
        statistics_.resumed += connection.tls->resumed() ? 1U : 0U;
        return on_established(place);
    case TlsConnection::Result::kMore:
        if (!send_all(connection, tls_->out())) {
            lose(place, std::strerror(errno));
        }
        return;
    case TlsConnection::Result::kClosed:
        return lose(place, kClosedByServer);
    case TlsConnection::Result::kFailed:
        send_all(connection, tls_->out()); // the alert that tells the server why
        return lose(place, connection.tls->reason(), false);
    }
}

/// Rejected early data never reached the server: its queries are written again.
void ConnectionTransport::settle_early_data(Connection& connection) {
    if (!connection.tls->early_sent()) {
        return;
    }
    if (connection.tls->early_accepted()) {
        ++statistics_.early_data;
        connection.queue.for_flying(
            queries_, [](PendingQuery& pending) { pending.record.marks |= kMarkResumed; });
        return;
    }
    ++statistics_.early_data_rejected;
    connection.written = 0;
    for (const std::uint32_t pending : connection.queue.take_back(queries_)) {
        queries_[pending].record.marks &= static_cast<std::uint16_t>(~kMarkEarlyData);
        matcher_.remove(pending);
    }
}

// Reading

void ConnectionTransport::read(std::uint32_t place, std::uint32_t events) {
    const std::uint32_t generation = connections_[place].generation;
    for (int n = 0; n < kReadsAtOnce; ++n) {
        const SocketRead got = connections_[place].socket->read(buffer_);
        if (would_block(got.error)) {
            return;
        }
        if (got.bytes.empty()) {
            const int error = got.error == 0 ? connections_[place].write_error : got.error;
            return lose(place, error == 0 ? kClosedByServer : std::strerror(error));
        }
        const Nanoseconds received = got.stamp == 0 ? clock_.now() : stamps_.convert(got.stamp);
        take(place, got.bytes, received);
        if (!alive(place, generation)) {
            return;
        }
        if (connections_[place].queue.flying()) {
            connections_[place].socket->acknowledge_now();
        }
        if (got.bytes.size() < buffer_.size() && (events & kEnded) == 0) {
            return;
        }
    }
    unread_ = true;
    const Connection& connection = connections_[place]; // let others have their turn
    connection.socket->watch(
        {.kind = EventKind::kTcp, .place = place, .generation = connection.generation});
}

void ConnectionTransport::take(std::uint32_t place, std::span<std::uint8_t> data,
                               Nanoseconds received) {
    if (!connections_[place].secure) {
        take_replies(place, data, received);
        return;
    }
    const std::uint32_t generation = connections_[place].generation;
    connections_[place].tls->offer(data);
    if (!connections_[place].established) {
        shake_hands(place);
    }
    if (alive(place, generation) && connections_[place].established) {
        take_tls(place, received);
    }
}

void ConnectionTransport::take_tls(std::uint32_t place, Nanoseconds received) {
    TlsConnection& tls = *connections_[place].tls;
    std::span<std::uint8_t> plain;
    TlsConnection::Result result = tls.read(plain);
    for (; result == TlsConnection::Result::kDone; result = tls.read(plain)) {
        if (!take_replies(place, plain, received)) {
            return;
        }
    }
    const bool sent = send_all(connections_[place], tls_->out()); // an alert, a key update
    if (result == TlsConnection::Result::kMore && sent) {
        return;
    }
    if (result == TlsConnection::Result::kFailed) {
        lose(place, tls.reason(), false);
    } else {
        lose(place, kClosedByServer);
    }
}

/// False: the connection was lost.

bool ConnectionTransport::take_replies(std::uint32_t place, std::span<std::uint8_t> data,
                                       Nanoseconds received) {
    const Owner owner = owner_of(connections_[place].number, kOwnerConnection);
    const bool good = connections_[place].replies.feed(data, [&](std::span<std::uint8_t> reply) {
        events_.on_reply(owner, {.bytes = reply, .size = reply.size(), .received = received});
    });
    if (!good) {
        ++statistics_.bad_streams;
        lose(place, kBadMessage, false);
    }
    return good;
}

/// Takes what came before the connection broke, and loses it.
void ConnectionTransport::drain(std::uint32_t place) {
    const std::uint32_t generation = connections_[place].generation;
    read(place, kEnded);
    if (alive(place, generation)) {
        lose(place, std::strerror(EPIPE));
    }
}

// Writing

/// A free id for the query, its own where possible. Where a few tries find none, it keeps its own
/// and equal keys match in order.
void ConnectionTransport::prepare(Connection& connection, PendingQuery& pending) {
    const std::uint16_t own = message_id(pending.bytes());
    const Owner owner = owner_of(connection.number, kOwnerConnection);
    std::uint16_t id = own;
    bool in_use = matcher_.id_in_use(owner, id);
    for (int n = 0; in_use && n < kMostIdsTried; ++n) {
        id = connection.next_id++;
        in_use = matcher_.id_in_use(owner, id);
    }
    pending.owner = owner;
    pending.wire_id = in_use ? own : id;
    if (pending.wire_id != own) {
        pending.record.marks |= kMarkIdRewritten;
    }
    if (connection.established && connection.secure && connection.tls->resumed()) {
        pending.record.marks |= kMarkResumed;
    }
    encode(segment_, pending);
}

bool ConnectionTransport::alive(std::uint32_t place, std::uint32_t generation) const {
    return connections_[place].generation == generation && connections_[place].socket;
}

/// False with errno: the connection is broken. Empties `bytes`.
bool ConnectionTransport::send_all(Connection& connection, std::vector<std::uint8_t>& bytes) {
    if (bytes.empty()) {
        return true;
    }
    if (connection.tail.size() > kMostOwed) {
        bytes.clear();
        errno = ENOBUFS;
        return false;
    }
    ssize_t sent = 0;
    if (connection.tail.empty()) {
        sent = connection.socket->send(bytes, More::kNo);
        if (sent < 0 && !would_block(errno)) {
            bytes.clear();
            return false;
        }
    }
    owe(connection, std::span(bytes).subspan(static_cast<size_t>(std::max<ssize_t>(sent, 0))));
    bytes.clear();
    return true;
}

/// What the kernel did not take goes before anything else.
void ConnectionTransport::owe(Connection& connection, std::span<const std::uint8_t> bytes) {
    connection.tail.insert(connection.tail.end(), bytes.begin(), bytes.end());
    owed_ += bytes.size();
}

bool ConnectionTransport::flush_tail(Connection& connection) {
    if (connection.tail.empty()) {
        return true;
    }
    const ssize_t sent = connection.socket->send(connection.tail, More::kNo);
    if (sent < 0) {
        return would_block(errno);
    }
    owed_ -= static_cast<size_t>(sent);
    connection.tail.erase(connection.tail.begin(), connection.tail.begin() + sent);
    if (connection.tail.empty()) {
        connection.tail = {}; // its memory as well: there may be 20,000 connections
    }
    return true;
}

/// False: stop writing for now.
bool ConnectionTransport::write_one(std::uint32_t place, std::uint32_t index) {
    Connection& connection = connections_[place];
    PendingQuery& pending = queries_[index];
    prepare(connection, pending);
    if (connection.written > 0 && !std::exchange(connection.nagle_off, true)) {
        connection.socket->disable_nagle(); // a first query is never held back
    }
    std::vector<std::uint8_t>* bytes = &segment_;
    if (connection.tls) {
        bytes = &tls_->out();
        if (!connection.tls->seal(segment_)) {
            lose(place, connection.tls->reason(), false);
            return false;
        }
    }
    const Nanoseconds now = clock_.now();
    const ssize_t sent = connection.socket->send(*bytes, More::kNo);
    const bool blocked = sent < 0 && would_block(errno);
    if (blocked && !connection.secure) {
        return false; // what is encrypted must go, this may wait
    }
    ++connection.written;
    connection.queue.started(queries_, index);
    if (sent < 0 && !blocked) {
        give_up(place);
        bytes->clear();
        return false;
    }
    owe(connection, std::span(*bytes).subspan(static_cast<size_t>(std::max<ssize_t>(sent, 0))));
    bytes->clear();
    if (pending.record.send == 0) {
        note_call(pending, {.before = now, .after = clock_.now()});
    }
    events_.on_written(index);
    return connection.tail.empty();
}

void ConnectionTransport::write(std::uint32_t place) {
    const std::uint32_t generation = connections_[place].generation;
    if (connections_[place].ending == Ending::kBroken) {
        return;
    }
    if (!flush_tail(connections_[place])) {
        return give_up(place);
    }
    if (!connections_[place].established) {
        return;
    }
    while (connections_[place].tail.empty() && connections_[place].queue.next() != kNone &&
           write_one(place, connections_[place].queue.next())) {
    }
    if (connections_[place].secure && alive(place, generation)) {
        send_all(connections_[place], tls_->out()); // of a handshake that no query waited for
    }
}

} // namespace reprise::querier
