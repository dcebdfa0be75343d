// Opening and closing connections; connection_bytes.cc has what travels on them.
#include "querier/connection/connection_transport.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/log.hh"
#include "core/wire/query.hh"
#include "core/wire/result_file.hh"
#include "querier/connection/connection_queue.hh"
#include "querier/connection/tls_connection.hh"
#include "querier/network/connection_options.hh"
#include "querier/network/network.hh"
#include "querier/network/tcp_socket.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/transport.hh"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace reprise::querier {
namespace {

constexpr size_t kMostRead = 65536;
/// Idle connections closed in one turn: a close takes microseconds, and sending waits for it.
constexpr unsigned kMostIdleCloses = 32;
/// A server that acknowledges nothing for so long, or for the timeout, is taken for gone.
constexpr Nanoseconds kShortestSilence = 3 * kSecond;
constexpr Nanoseconds kSilenceSlack = 50 * kMillisecond;

/// Trace connections, TLS and shared connections never meet under one key.
constexpr std::uint64_t kTraceKey = std::uint64_t{1} << 63U;
constexpr std::uint64_t kTlsKey = std::uint64_t{1} << 62U;
constexpr std::uint64_t kSingleKey = std::uint64_t{1} << 61U;

std::uint64_t key_of(std::uint64_t traced, std::uint32_t source, Transport carrier) {
    const std::uint64_t base = traced != 0 ? kTraceKey | traced : source;
    return base | (carrier == Transport::kTls            ? kTlsKey
                   : carrier == Transport::kStatelessTcp ? kSingleKey
                                                         : 0U);
}

Servers on_port(Servers servers, std::uint16_t port) {
    for (auto* server : {&servers.v4, &servers.v6}) {
        if (*server) {
            (*server)->port = port;
        }
    }
    return servers;
}

} // namespace

ConnectionTransport::ConnectionTransport(const ConnectionParts& parts, const Servers& servers,
                                         ConnectionOptions options, SourceOf source)
    : network_(parts.network), clock_(parts.network.clock()), descriptors_(parts.descriptors),
      queries_(parts.queries), matcher_(parts.matcher), stamps_(parts.stamps),
      statistics_(parts.statistics), events_(parts.events), servers_(servers),
      options_(std::move(options)), source_(std::move(source)), buffer_(kMostRead) {
    if (options_.tls) {
        tls_servers_ = on_port(servers, options_.tls->port);
        tls_ = std::make_unique<TlsClient>(*options_.tls);
    }
}

// Opening

const std::optional<Endpoint>& ConnectionTransport::server_of(const PendingQuery& pending) const {
    return (pending.carrier == Transport::kTls ? tls_servers_ : servers_).of(pending.family());
}

std::uint32_t ConnectionTransport::connection_for(std::uint32_t index, SendResult& result) {
    PendingQuery& pending = queries_[index];
    const auto known = by_key_.find(key_of(pending.traced, pending.record.source, pending.carrier));
    if (known != by_key_.end()) {
        statistics_.reused_queries += (pending.record.marks & kMarkReused) == 0 ? 1U : 0U;
        pending.record.marks |= kMarkReused;
        return known->second;
    }
    const auto& server = server_of(pending);
    const std::optional<IpAddress> source = source_ ? source_(pending) : std::nullopt;
    if (!server || (source_ && !source)) {
        result = server ? SendResult::kNoAddress : SendResult::kFailed;
        return kNone;
    }
    if (!descriptors_.take()) {
        result = SendResult::kNoRoom;
        return kNone;
    }
    OpenedSocket opened = network_.connect(*server, source, options_.kernel_stamps);
    if (opened.error != 0) {
        descriptors_.give_back();
        result = opened.not_ours ? SendResult::kNoAddress : refused(opened.error, *server);
        return kNone;
    }
    pending.record.marks |= kMarkOpened;
    if (pending.record.send == 0) {
        note_call(pending, opened.call); // the first action for this query
    }
    return adopt(std::move(opened), index);
}

/// The kernel did not even begin to connect.
SendResult ConnectionTransport::refused(int error, const Endpoint& server) {
    if (error == EMFILE || error == ENFILE) {
        return SendResult::kNoRoom;
    }
    ++statistics_.connections_failed;
    const bool no_port = error == EADDRNOTAVAIL || error == EADDRINUSE;
    statistics_.failures.add(no_port ? "no free port" : std::strerror(error));
    if (no_port && !std::exchange(warned_ports_, true)) {
        spdlog::warn("event=no_free_port server={} hint=\"all local ports of an address are in use "
                     "to this server; use source mode mapped or addresses, more client hosts, or "
                     "a wider net.ipv4.ip_local_port_range\"",
                     server.text());
    } else if (!no_port && !std::exchange(warned_, true)) {
        spdlog::warn("event=connect_failed server={} because={}", server.text(),
                     log_value(std::strerror(error)));
    }
    return SendResult::kFailed;
}

std::uint32_t ConnectionTransport::adopt(OpenedSocket opened, std::uint32_t index) {
    if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(connections_.size()));
        connections_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    const PendingQuery& pending = queries_[index];
    Connection fresh;
    fresh.generation = connections_[place].generation + 1;
    opened.socket->watch({.kind = EventKind::kTcp, .place = place, .generation = fresh.generation});
    fresh.socket = std::move(opened.socket);
    fresh.key = key_of(pending.traced, pending.record.source, pending.carrier);
    fresh.number = ++last_number_;
    fresh.source = pending.record.source;
    fresh.secure = pending.carrier == Transport::kTls;
    fresh.single = pending.carrier == Transport::kStatelessTcp;
    fresh.idle_limit =
        pending.idle_class == 0 ? options_.idle_timeout : pending.idle_class * kSecond;
    fresh.opener = index;
    fresh.server = server_of(pending).value_or(Endpoint{});
    fresh.syn = opened.call.before;
    connections_[place] = std::move(fresh);
    by_key_[connections_[place].key] = place;
    ++opening_;
    ++statistics_.connections_opened;
    statistics_.peak_open = std::max(statistics_.peak_open, ++statistics_.open_now);
    return place;
}

/// One more query takes the connection; the last one it may carry leaves the next to another.
void ConnectionTransport::use(std::uint32_t place) {
    Connection& connection = connections_[place];
    const std::uint32_t most = connection.single ? 1 : options_.queries_per_connection;
    if (++connection.used == most) {
        by_key_.erase(connection.key);
        connection.ending = Ending::kUsedUp;
    }
}

SendResult ConnectionTransport::attach(std::uint32_t index) {
    SendResult result = SendResult::kDone;
    const std::uint32_t place = connection_for(index, result);
    if (place == kNone) {
        return result;
    }
    queries_[index].place = place;
    queries_[index].record.connection = connections_[place].number;
    connections_[place].queue.enqueue(queries_, index);
    use(place);
    set_idle(place, false);
    return SendResult::kDone;
}

SendResult ConnectionTransport::submit(std::uint32_t index) {
    const SendResult result = attach(index);
    if (result == SendResult::kDone && connections_[queries_[index].place].established) {
        write(queries_[index].place);
    }
    return result;
}

// Ends of queries

void ConnectionTransport::detach(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (pending.place == kNone) {
        return;
    }
    Connection& connection = connections_[pending.place];
    connection.queue.remove(queries_, index);
    if (connection.opener == index) {
        connection.opener = kNone;
    }
    if (connection.queue.idle()) {
        end_when_idle(pending.place);
    }
    pending.place = kNone;
}

bool ConnectionTransport::timed_out(std::uint32_t index, Nanoseconds now) {
    const std::uint32_t place = queries_[index].place;
    if (place == kNone) {
        return false;
    }
    Connection& connection = connections_[place];
    if (!connection.established) {
        const bool hopeless = now - connection.syn >= options_.timeout - kSilenceSlack;
        if (hopeless) { // else the query is older than this attempt
            lose(place,
                 connection.connected ? "TLS handshake timed out" : std::strerror(ETIMEDOUT));
        }
        return hopeless;
    }
    const Nanoseconds silence = std::max(options_.timeout - kSilenceSlack, kShortestSilence);
    if (queries_[index].flying && !connection.over && connection.socket->unacknowledged(silence)) {
        end_soon(place, Ending::kDead);
    }
    return false;
}

// Closing

/// The connection has nothing to do; may it go?
void ConnectionTransport::end_when_idle(std::uint32_t place) {
    Connection& connection = connections_[place];
    if (connection.ending == Ending::kOpen || options_.server_closes) {
        set_idle(place, true);
    } else if (!std::exchange(connection.over, true)) {
        over_.push_back(place);
    }
}

void ConnectionTransport::set_idle(std::uint32_t place, bool idle) {
    Connection& connection = connections_[place];
    if (idle == connection.is_idle) {
        return;
    }
    connection.is_idle = idle;
    if (idle) {
        connection.idle_since = clock_.now();
        idle_[connection.idle_limit].push_back(connections_, place);
    } else {
        const auto list = idle_.find(connection.idle_limit);
        list->second.remove(connections_, place);
        if (list->second.empty()) {
            idle_.erase(list); // a trace may have any number of limits
        }
    }
}

void ConnectionTransport::end_soon(std::uint32_t place, Ending ending) {
    connections_[place].ending = ending;
    if (!std::exchange(connections_[place].over, true)) {
        over_.push_back(place);
    }
}

/// A write failed. Answers that came before may still be read.
void ConnectionTransport::give_up(std::uint32_t place) {
    connections_[place].write_error = errno;
    end_soon(place, Ending::kBroken);
}

/// Closes what was found to be over while somebody was working on it.
void ConnectionTransport::settle() {
    while (!over_.empty()) {
        const std::uint32_t place = over_.back();
        over_.pop_back();
        Connection& connection = connections_[place];
        if (!connection.over) {
            continue; // lost meanwhile, perhaps followed by another
        }
        connection.over = false;
        if (connection.ending == Ending::kDead) {
            ++statistics_.half_open;
            lose(place, "no acknowledgement from the server", false);
        } else if (connection.ending == Ending::kBroken) {
            drain(place);
        } else if (connection.queue.idle()) {
            count_end(connection);
            close_in_order(place);
        }
    }
}

void ConnectionTransport::count_end(const Connection& connection) {
    ++(connection.ending == Ending::kUsedUp ? statistics_.closed_used_up
                                            : statistics_.closed_by_trace);
}

void ConnectionTransport::close_traced(const Query& marker) {
    const auto found = by_key_.find(key_of(marker.connection, 0, marker.transport));
    if (options_.server_closes || found == by_key_.end()) {
        return;
    }
    const std::uint32_t place = found->second;
    by_key_.erase(found);
    connections_[place].ending = Ending::kByTrace;
    if (connections_[place].queue.idle()) {
        set_idle(place, false);
        end_when_idle(place);
        settle();
    }
}

void ConnectionTransport::close_in_order(std::uint32_t place) {
    Connection& connection = connections_[place];
    if (connection.tls && connection.established && connection.tail.empty()) {
        connection.tls->close();
        // It waits for the FIN and shares its segment: alone it would make the server close first.
        connection.socket->send(tls_->out(), More::kYes);
    }
    close(place);
}

void ConnectionTransport::close(std::uint32_t place) {
    Connection& connection = connections_[place];
    set_idle(place, false);
    if (const auto known = by_key_.find(connection.key);
        known != by_key_.end() && known->second == place) {
        by_key_.erase(known);
    }
    if (connection.secure) {
        tls_->out().clear();
    }
    opening_ -= connection.established ? 0U : 1U;
    owed_ -= connection.tail.size();
    const std::uint32_t generation = connection.generation;
    connection = {};
    connection.generation = generation;
    descriptors_.give_back();
    free_.push_back(place);
    --statistics_.open_now;
}

/// The connection is gone. `reason` counts where queries suffered from it.
void ConnectionTransport::lose(std::uint32_t place, std::string_view reason, bool by_server) {
    const Connection& connection = connections_[place];
    const bool established = connection.established;
    statistics_.closed_by_server += established && by_server ? 1U : 0U;
    statistics_.connections_failed += established ? 0U : 1U;
    if (!connection.queue.idle()) {
        statistics_.failures.add(reason);
        if (!std::exchange(warned_, true)) {
            spdlog::warn("event=connection_failed because={} note=\"the first one; all are "
                         "counted by reason\"",
                         log_value(reason));
        }
    }
    const ConnectionQueue::Loss loss = connections_[place].queue.lose(queries_, established);
    close(place);
    for (const std::uint32_t pending : loss.failed) {
        queries_[pending].place = kNone;
        events_.on_failed(pending, Status::kConnectionFailed);
    }
    bool possible = true; // what one of them cannot do the others cannot either
    for (const std::uint32_t pending : loss.retry) {
        matcher_.remove(pending);
        queries_[pending].place = kNone;
        queries_[pending].record.marks &=
            static_cast<std::uint16_t>(~(kMarkEarlyData | kMarkResumed));
        statistics_.retried += queries_[pending].flying ? 1U : 0U;
        possible = possible && submit(pending) == SendResult::kDone;
        if (!possible) {
            events_.on_failed(pending, Status::kConnectionFailed);
        }
    }
}

void ConnectionTransport::tidy(Nanoseconds now) {
    settle();
    for (unsigned i = 0; i < kMostIdleCloses && next_idle() <= now; ++i) {
        ++statistics_.closed_idle;
        close_in_order(first_due());
    }
}

template <typename When> std::uint32_t ConnectionTransport::first_idle(When when) const {
    std::uint32_t first = kNone;
    for (const auto& [limit, list] : idle_) {
        if (!list.empty() &&
            (first == kNone || when(connections_[list.front()]) < when(connections_[first]))) {
            first = list.front();
        }
    }
    return first;
}

std::uint32_t ConnectionTransport::first_due() const {
    return first_idle([](const Connection& one) { return one.idle_since + one.idle_limit; });
}

Nanoseconds ConnectionTransport::next_idle() const {
    if (!over_.empty()) {
        return 0;
    }
    const std::uint32_t first = options_.server_closes ? kNone : first_due();
    return first == kNone ? std::numeric_limits<Nanoseconds>::max()
                          : connections_[first].idle_since + connections_[first].idle_limit;
}

bool ConnectionTransport::evict_idle() {
    const std::uint32_t longest =
        options_.server_closes ? kNone
                               : first_idle([](const Connection& one) { return one.idle_since; });
    if (longest == kNone) {
        return false;
    }
    ++statistics_.connections_evicted;
    close_in_order(longest);
    return true;
}

} // namespace reprise::querier
