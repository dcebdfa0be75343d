#include "querier/connection/connection.hh"

#include "core/base/bytes.hh"
#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"
#include "querier/connection/tls_connection.hh"
#include "querier/results/results.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
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

/// A server that acknowledges nothing for so long, or for the timeout, is taken for gone.
constexpr Nanoseconds kShortestSilence = 3 * kSecond;
constexpr Nanoseconds kTimeoutSlack = 50 * kMillisecond;

constexpr std::string_view kBadMessage = "a length below 12, or no DNS";
constexpr std::string_view kClosedByServer = "closed by the server with queries unanswered";

/// Length, message, and the id as it goes on the wire.
void encode(std::vector<std::uint8_t>& out, const PendingQuery& pending) {
    const Bytes message = pending.bytes();
    out.resize(message.size() + 2);
    store16(out.data(), message.size());
    copy_bytes(message, out.data() + 2);
    if (message.size() >= 2) {
        store16(out.data() + 2, pending.wire_id);
    }
}

/// What a read without bytes says: nothing came, or why nothing more will.
std::optional<Connection::Loss> end_of(int error, int write_error) {
    if (would_block(error)) {
        return write_error == 0 ? std::nullopt
                                : std::optional(Connection::Loss{.reason = std::strerror(EPIPE)});
    }
    const int reason = error == 0 ? write_error : error;
    return Connection::Loss{.reason = reason == 0 ? kClosedByServer : std::strerror(reason)};
}

} // namespace

// The queries of a connection

void ConnectionQueue::enqueue(PendingQueries& queries, std::uint32_t pending) {
    queries[pending].flying = false;
    waiting_.push_back(queries, pending);
}

void ConnectionQueue::started(PendingQueries& queries, std::uint32_t pending) {
    waiting_.remove(queries, pending);
    flying_.push_back(queries, pending);
    queries[pending].flying = true;
}

void ConnectionQueue::start_all(PendingQueries& queries) {
    while (!waiting_.empty()) {
        started(queries, waiting_.front());
    }
}

std::vector<std::uint32_t> ConnectionQueue::take_back(PendingQueries& queries) {
    std::vector<std::uint32_t> written;
    for (; !flying_.empty(); flying_.remove(queries, flying_.front())) {
        written.push_back(flying_.front());
        queries[flying_.front()].flying = false;
    }
    std::vector<std::uint32_t> order = written;
    for (; !waiting_.empty(); waiting_.remove(queries, waiting_.front())) {
        order.push_back(waiting_.front());
    }
    for (const std::uint32_t pending : order) {
        waiting_.push_back(queries, pending);
    }
    return written;
}

void ConnectionQueue::remove(PendingQueries& queries, std::uint32_t pending) {
    (queries[pending].flying ? flying_ : waiting_).remove(queries, pending);
}

ConnectionQueue::Loss ConnectionQueue::lose(PendingQueries& queries, bool established) {
    Loss loss;
    for (; !flying_.empty(); flying_.remove(queries, flying_.front())) {
        RqRecord& record = queries[flying_.front()].record;
        const bool again = established && record.retries == 0; // else it is early data, or enough
        if (again) {
            ++record.retries;
            record.marks |= kMarkRetried;
        }
        (again ? loss.retry : loss.failed).push_back(flying_.front());
    }
    for (; !waiting_.empty(); waiting_.remove(queries, waiting_.front())) {
        (established ? loss.retry : loss.failed).push_back(waiting_.front());
    }
    return loss;
}

// Bytes that wait

void BufferedSocket::owe(Bytes bytes) {
    tail_.insert(tail_.end(), bytes.begin(), bytes.end());
    resources_.owed += bytes.size();
}

bool BufferedSocket::flush() {
    if (tail_.empty()) {
        return true;
    }
    const ssize_t sent = socket_->send(tail_, More::kNo);
    if (sent < 0) {
        return would_block(errno);
    }
    resources_.owed -= static_cast<size_t>(sent);
    tail_.erase(tail_.begin(), tail_.begin() + sent);
    if (tail_.empty()) {
        tail_ = {}; // its memory as well: there may be 20,000 connections
    }
    return true;
}

bool BufferedSocket::send_all(std::vector<std::uint8_t>& bytes) {
    const std::vector<std::uint8_t>::size_type size = bytes.size();
    if (size == 0) {
        return true;
    }
    ssize_t sent = 0;
    if (tail_.empty()) {
        sent = socket_->send(bytes, More::kNo);
    } else if (tail_.size() > kMostOwed) {
        sent = -1;
        errno = ENOBUFS;
    }
    const bool good = sent >= 0 || would_block(errno);
    if (good) {
        owe(Bytes(bytes).subspan(static_cast<size_t>(std::max<ssize_t>(sent, 0))));
    }
    bytes.clear();
    return good;
}

// Opening

Connection::Connection(ConnectionTools& tools, std::unique_ptr<TcpSocket> socket,
                       const ConnectionOrigin& origin)
    : tools_(tools), queries_(tools.parts.queries), clock_(tools.parts.network.clock()),
      origin_(origin), socket_(std::move(socket), tools.parts.resources) {
    ++tools_.parts.resources.opening;
    socket_->watch(origin_.tag);
}

Connection::~Connection() {
    tools_.parts.resources.opening -= established_ ? 0U : 1U;
    if (origin_.secure) {
        tools_.tls.out().clear();
    }
}

void Connection::expire(const PendingQuery& pending, Nanoseconds now, Nanoseconds timeout) {
    const Nanoseconds most = timeout - kTimeoutSlack;
    if (loss_) {
        return;
    }
    if (!established_ && now - origin_.syn >= most) { // else the query is older than this attempt
        loss_ = Loss{.reason = connected_ ? "TLS handshake timed out" : std::strerror(ETIMEDOUT)};
    } else if (established_ && pending.flying &&
               socket_->unacknowledged(std::max(most, kShortestSilence))) {
        ++tools_.parts.statistics.half_open;
        loss_ = Loss{.reason = "no acknowledgement from the server", .by_server = false};
    }
}

bool Connection::handle(std::uint32_t events) {
    if (loss_) {
        return true;
    }
    if (!connected_) {
        finish_connect(events);
    } else if ((events & EPOLLOUT) != 0 && (events & kEnded) == 0) {
        write();
    }
    return loss_ || (events & ~std::uint32_t{EPOLLOUT}) == 0 || read(events);
}

void Connection::finish_connect(std::uint32_t events) {
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        const int error = socket_->take_error();
        if (error == 0 || error == ECONNRESET) {
            // It stood for a moment. Whether we saw that is luck, and should not show: as if the
            // queries had been written.
            established_ = true;
            --tools_.parts.resources.opening;
            queue_.start_all(queries_);
        }
        loss_ = Loss{.reason = error == 0 ? kClosedByServer : std::strerror(error)};
    } else if ((events & EPOLLOUT) != 0) {
        connected_ = true;
        if (!origin_.secure) {
            return establish();
        }
        tls_ = std::make_unique<TlsConnection>(tools_.tls, origin_.client, origin_.server);
        write_early();
        shake_hands();
    }
}

void Connection::establish() {
    established_ = true;
    --tools_.parts.resources.opening;
    if (origin_.opener != kNone) {
        queries_[origin_.opener].record.connect = clock_.now() - origin_.syn;
        origin_.opener = kNone;
    }
    write();
}

/// The queries that wait travel with the first flight, where the session allows it.
void Connection::write_early() {
    while (tls_->early_room() > 0 && queue_.next() != kNone) {
        const std::uint32_t index = queue_.next();
        prepare(queries_[index]);
        if (!tls_->seal_early(tools_.segment)) {
            return;
        }
        queries_[index].record.marks |= kMarkEarlyData;
        wrote_ = true;
        queue_.started(queries_, index);
        const Nanoseconds now = clock_.now();
        tools_.parts.events.on_sent(index, {.before = now, .after = now});
    }
}

/// What is to be sent lies in the TLS client's buffer until the first query joins it.
void Connection::shake_hands() {
    switch (tls_->handshake()) {
    case TlsConnection::Result::kDone:
        settle_early_data();
        tools_.parts.statistics.resumed += tls_->resumed() ? 1U : 0U;
        return establish();
    case TlsConnection::Result::kMore:
        if (!socket_.send_all(tools_.tls.out())) {
            loss_ = Loss{.reason = std::strerror(errno)};
        }
        return;
    case TlsConnection::Result::kClosed:
        loss_ = Loss{.reason = kClosedByServer};
        return;
    case TlsConnection::Result::kFailed:
        socket_.send_all(tools_.tls.out()); // the alert that tells the server why
        loss_ = Loss{.reason = tls_->reason(), .by_server = false};
        return;
    }
}

/// Rejected early data never reached the server: its queries are written again.
void Connection::settle_early_data() {
    Statistics& statistics = tools_.parts.statistics;
    if (!tls_->early_sent()) {
        return;
    }
    if (tls_->early_accepted()) {
        ++statistics.early_data;
        queue_.for_flying(queries_,
                          [](PendingQuery& pending) { pending.record.marks |= kMarkResumed; });
        return;
    }
    ++statistics.early_data_rejected;
    wrote_ = false;
    for (const std::uint32_t pending : queue_.take_back(queries_)) {
        queries_[pending].record.marks &= static_cast<std::uint16_t>(~kMarkEarlyData);
        tools_.parts.matcher.remove(pending);
    }
}

// Reading

bool Connection::read(std::uint32_t events) {
    for (int n = 0; n < kReadsAtOnce; ++n) {
        const SocketRead got = socket_->read(tools_.buffer);
        if (got.bytes.empty()) {
            loss_ = end_of(got.error, write_error_);
            return true;
        }
        // A segment that waited for one ahead of it has an earlier stamp, and clocks are compared
        // anew each time.
        received_ = std::max(received_, got.stamp == 0 ? clock_.now()
                                                       : tools_.parts.stamps.convert(got.stamp));
        take(got.bytes);
        if (loss_) {
            return true;
        }
        if (tools_.acknowledge_now && queue_.flying()) {
            socket_->acknowledge_now();
        }
        if (got.bytes.size() < tools_.buffer.size() && (events & kEnded) == 0) {
            return true;
        }
    }
    socket_->watch(origin_.tag); // let others have their turn
    return false;
}

void Connection::take(std::span<std::uint8_t> data) {
    if (!origin_.secure) {
        take_replies(data);
        return;
    }
    tls_->offer(data);
    if (!established_) {
        shake_hands();
    }
    if (loss_ || !established_) {
        return;
    }
    std::span<std::uint8_t> plain;
    TlsConnection::Result result = tls_->read(plain);
    for (; result == TlsConnection::Result::kDone; result = tls_->read(plain)) {
        if (!take_replies(plain)) {
            return;
        }
    }
    const bool sent = socket_.send_all(tools_.tls.out()); // an alert, a key update
    if (result == TlsConnection::Result::kFailed) {
        loss_ = Loss{.reason = tls_->reason(), .by_server = false};
    } else if (result != TlsConnection::Result::kMore || !sent) {
        loss_ = Loss{.reason = kClosedByServer};
    }
}

/// False: the connection is lost.
bool Connection::take_replies(std::span<std::uint8_t> data) {
    const Owner owner = owner_of(origin_.number, kOwnerConnection);
    const bool good = replies_.feed(data, [&](std::span<std::uint8_t> reply) {
        tools_.parts.events.on_reply(owner,
                                     {.bytes = reply, .size = reply.size(), .received = received_});
    });
    if (!good) {
        ++tools_.parts.statistics.bad_streams;
        loss_ = Loss{.reason = kBadMessage, .by_server = false};
    }
    return good;
}

// Writing

/// A free id for the query, its own where possible. Where a few tries find none, it keeps its own
/// and equal keys match in order.
void Connection::prepare(PendingQuery& pending) {
    const Matcher& matcher = tools_.parts.matcher;
    const Owner owner = owner_of(origin_.number, kOwnerConnection);
    std::uint16_t id = pending.id;
    bool in_use = matcher.id_in_use(owner, id);
    for (int n = 0; in_use && n < kMostIdsTried; ++n) {
        id = next_id_++;
        in_use = matcher.id_in_use(owner, id);
    }
    pending.owner = owner;
    pending.wire_id = in_use ? pending.id : id;
    if (pending.wire_id != pending.id) {
        pending.record.marks |= kMarkIdRewritten;
    }
    if (established_ && tls_ && tls_->resumed()) {
        pending.record.marks |= kMarkResumed;
    }
    encode(tools_.segment, pending);
}

/// False: stop writing for now.
bool Connection::write_one(std::uint32_t index) {
    prepare(queries_[index]);
    if (wrote_ && !std::exchange(nagle_off_, true)) {
        socket_->disable_nagle(); // a first query is never held back
    }
    std::vector<std::uint8_t>& bytes = tls_ ? tools_.tls.out() : tools_.segment;
    if (tls_ && !tls_->seal(tools_.segment)) {
        loss_ = Loss{.reason = tls_->reason(), .by_server = false};
        return false;
    }
    const Nanoseconds now = clock_.now();
    const ssize_t sent = socket_->send(bytes, More::kNo);
    const bool blocked = sent < 0 && would_block(errno);
    if (blocked && !tls_) {
        return false; // what is encrypted must go, this may wait
    }
    wrote_ = true;
    queue_.started(queries_, index);
    if (sent < 0 && !blocked) {
        write_error_ = errno;
        bytes.clear();
        return false;
    }
    socket_.owe(Bytes(bytes).subspan(static_cast<size_t>(std::max<ssize_t>(sent, 0))));
    bytes.clear();
    // Of a query whose time of sending is that of the SYN nobody wants to know the call's end.
    const bool first = queries_[index].record.send == 0;
    tools_.parts.events.on_sent(index, {.before = now, .after = first ? clock_.now() : now});
    return socket_.clear();
}

void Connection::write() {
    if (over()) {
        return;
    }
    if (!socket_.flush()) {
        write_error_ = errno;
        return;
    }
    if (!established_) {
        return;
    }
    while (socket_.clear() && queue_.next() != kNone && write_one(queue_.next())) {
    }
    if (tls_ && !loss_) {
        socket_.send_all(tools_.tls.out()); // of a handshake that no query waited for
    }
}

void Connection::forget(std::uint32_t pending) {
    queue_.remove(queries_, pending);
    if (origin_.opener == pending) {
        origin_.opener = kNone;
    }
}

void Connection::say_goodbye() {
    if (tls_ && established_ && socket_.clear()) {
        tls_->close();
        // It waits for the FIN and shares its segment: alone it would make the server close first.
        socket_->send(tools_.tls.out(), More::kYes);
    }
}

} // namespace reprise::querier
