#include "core/base/log.hh"
#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/carrier/socket.hh"
#include "querier/connection/connection.hh"
#include "querier/connection/tls_connection.hh"
#include "querier/results/results.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <sys/epoll.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

constexpr size_t kMostRead = 65536;
/// Connections closed in one turn: a close takes microseconds, and sending waits for it.
constexpr unsigned kMostCloses = 32;

/// Trace connections, TLS and shared connections never meet under one key.
constexpr std::uint64_t kTraceKey = std::uint64_t{1} << 63U;
constexpr std::uint64_t kTlsKey = std::uint64_t{1} << 62U;
constexpr std::uint64_t kSingleKey = std::uint64_t{1} << 61U;

/// A source at a peer (0 = the server under test): each has TLS sessions and connections.
std::uint64_t client_of(const PendingQuery& pending) {
    return (std::uint64_t{pending.peer} << 32U) | pending.record.source;
}

std::uint64_t key_of(std::uint64_t traced, std::uint64_t client, Transport transport) {
    const std::uint64_t base = traced != 0 ? kTraceKey | traced : client;
    return base | (transport == Transport::kTls            ? kTlsKey
                   : transport == Transport::kStatelessTcp ? kSingleKey
                                                           : 0U);
}

/// Why a connection ends when nothing waits on it any more.
enum class Ending : std::uint8_t { kOpen, kUsedUp, kByTrace };

/// A place in the table of connections.
struct ConnectionPlace {
    std::unique_ptr<Connection> connection; ///< null where the place is free
    std::uint64_t key = 0;
    std::uint32_t used = 0; ///< queries that took it
    std::uint32_t most = 0; ///< that it may carry; 0 = any number
    Ending ending = Ending::kOpen;
    bool over = false; ///< on the list of connections to be closed
    bool is_idle = false;
    Nanoseconds idle_since = 0;
    Nanoseconds idle_limit = 0; ///< may stay without a query for so long
    Links idle{};

    /// When its time without a query is up.
    [[nodiscard]] Nanoseconds idle_end() const { return idle_since + idle_limit; }
};

class ConnectionCarrier final : public Carrier {
public:
    ConnectionCarrier(const CarrierWish& wish, const CarrierParts& parts)
        : tools_{.parts = parts,
                 .tls = TlsClient(wish.options),
                 .acknowledge_now = wish.options.socket.quickack,
                 .buffer = std::vector<std::uint8_t>(kMostRead)},
          queries_(parts.queries), statistics_(parts.statistics), clock_(parts.network.clock()),
          options_(wish.options), number_(wish.number) {}

    /// The trace's client closes its connection.
    void prepare(const Query& query) override {
        const auto found = by_key_.find(key_of(query.connection, 0, query.transport));
        if (!query.is_close() || options_.server_closes || found == by_key_.end()) {
            return;
        }
        const std::uint32_t place = found->second;
        by_key_.erase(found);
        places_[place].ending = Ending::kByTrace;
        if (places_[place].connection->queue().idle()) {
            end_idle(place);
            end_soon(place);
            settle();
        }
    }

    SendResult submit(std::uint32_t index) override {
        queries_.keep(index);
        SendResult result = SendResult::kTaken;
        const std::uint32_t at = connection_for(index, result);
        if (at == kNone) {
            return result;
        }
        ConnectionPlace& place = places_[at];
        PendingQuery& pending = queries_[index];
        pending.place = at;
        pending.record.connection = place.connection->origin().number;
        if (!place.connection->established() && place.connection->origin().opener != index &&
            pending.record.send == 0 && pending.peer == 0) {
            pending.waited = true;
            pending.record.marks |= kMarkWaited;
        }
        place.connection->queue().enqueue(queries_, index);
        if (++place.used == place.most) { // the next query takes another
            by_key_.erase(place.key);
            place.ending = Ending::kUsedUp;
        }
        end_idle(at);
        if (place.connection->established()) {
            place.connection->write();
            if (place.connection->loss()) {
                lose(at);
            } else if (place.connection->over()) {
                end_soon(at);
            }
        }
        return result;
    }

    bool handle(const EventTag& tag, std::uint32_t events) override {
        Connection* const connection = places_[tag.place].connection.get();
        bool all = true;
        if (connection != nullptr && connection->origin().tag.generation == tag.generation) {
            all = connection->handle(events);
            if (connection->loss()) {
                lose(tag.place);
            } else if (connection->over()) {
                end_soon(tag.place);
            }
        }
        settle();
        return all;
    }

    void release(std::uint32_t index) override {
        const std::uint32_t place = std::exchange(queries_[index].place, kNone);
        if (place != kNone) {
            places_[place].connection->forget(index);
            rest(place);
        }
    }

    bool expire(std::uint32_t index, Nanoseconds now) override {
        const std::uint32_t place = queries_[index].place;
        if (place == kNone) {
            return false;
        }
        Connection& connection = *places_[place].connection;
        connection.expire(queries_[index], now, options_.timeout);
        if (connection.loss() && !connection.established()) {
            lose(place);
            return true;
        }
        if (connection.loss()) {
            end_soon(place);
        }
        return false;
    }

    void tidy(Nanoseconds now) override {
        settle();
        for (unsigned i = 0; i < kMostCloses && next_wake(now) <= now; ++i) {
            ++statistics_.closed_idle;
            close_in_order(first_idle(&ConnectionPlace::idle_end));
        }
        // Those of a server that reads nothing hold on to what they owe it.
        for (unsigned i = 0; i < kMostCloses && tools_.parts.resources.owes_too_much(); ++i) {
            if (!evict()) {
                return;
            }
        }
    }

    bool evict() override {
        const std::uint32_t longest = first_idle(&ConnectionPlace::idle_since);
        if (longest == kNone) {
            return false;
        }
        ++statistics_.connections_evicted;
        close_in_order(longest);
        return true;
    }

    Nanoseconds next_wake(Nanoseconds /*now*/) const override {
        if (!over_.empty()) {
            return 0;
        }
        const std::uint32_t next = first_idle(&ConnectionPlace::idle_end);
        return next == kNone ? std::numeric_limits<Nanoseconds>::max() : places_[next].idle_end();
    }

private:
    std::uint32_t connection_for(std::uint32_t index, SendResult& result) {
        PendingQuery& pending = queries_[index];
        const auto known =
            by_key_.find(key_of(pending.traced, client_of(pending), pending.transport));
        if (known != by_key_.end()) {
            statistics_.reused_queries += (pending.record.marks & kMarkReused) == 0 ? 1U : 0U;
            pending.record.marks |= kMarkReused;
            return known->second;
        }
        auto server = options_.servers_of(pending.peer).of(pending.family());
        if (server && pending.transport == Transport::kTls) {
            server->port = options_.tls.port;
        }
        const auto source = options_.local_address(pending.source.address, pending.record.source);
        if (!server || !source) {
            result = server ? SendResult::kNoAddress : SendResult::kNoConnection;
            return kNone;
        }
        if (!tools_.parts.resources.take_descriptor()) {
            result = SendResult::kNoRoom;
            return kNone;
        }
        OpenedSocket opened = tools_.parts.network.connect(*server, *source, !options_.fast);
        if (opened.error != 0) {
            tools_.parts.resources.give_back_descriptor();
            result = refused(opened.error, *server);
            return kNone;
        }
        pending.record.marks |= kMarkOpened;
        if (pending.record.send == 0) {
            note_call(pending, opened.call); // the first action for this query
        }
        return adopt(std::move(opened), *server, index);
    }

    /// The kernel did not even begin to connect.
    SendResult refused(int error, const Endpoint& server) {
        if (error == EADDRNOTAVAIL) {
            return SendResult::kNoAddress;
        }
        if (error == EMFILE || error == ENFILE) {
            return SendResult::kNoRoom;
        }
        ++statistics_.connections_failed;
        const bool no_port = error == EADDRINUSE;
        statistics_.count_failure(no_port ? "no free port" : std::strerror(error));
        if (no_port && !std::exchange(warned_ports_, true)) {
            spdlog::warn(
                "event=no_free_port server={} hint=\"all local ports of an address are in use "
                "to this server; use source mode mapped or addresses, more client hosts, or "
                "a wider net.ipv4.ip_local_port_range\"",
                server.text());
        } else if (!no_port && !std::exchange(warned_, true)) {
            spdlog::warn("event=connect_failed server={} because={}", server.text(),
                         log_value(std::strerror(error)));
        }
        return SendResult::kNoConnection;
    }

    std::uint32_t adopt(OpenedSocket opened, const Endpoint& server, std::uint32_t index) {
        const std::uint32_t at = take_place(places_, free_);
        const PendingQuery& pending = queries_[index];
        const auto number = static_cast<std::uint32_t>(++statistics_.connections_opened);
        ConnectionPlace& place = places_[at];
        place = {.connection = std::make_unique<Connection>(
                     tools_, std::move(opened.socket),
                     ConnectionOrigin{.number = number,
                                      .client = client_of(pending),
                                      .opener = index,
                                      .server = server,
                                      .secure = pending.transport == Transport::kTls,
                                      .syn = opened.call.before,
                                      .tag = {.kind = EventKind::kCarrier,
                                              .carrier = number_,
                                              .generation = static_cast<std::uint16_t>(number),
                                              .place = at}}),
                 .key = key_of(pending.traced, client_of(pending), pending.transport),
                 .most = pending.transport == Transport::kStatelessTcp
                             ? 1
                             : options_.queries_per_connection,
                 .idle_limit = pending.idle_class == 0 ? options_.idle_timeout
                                                       : pending.idle_class * kSecond};
        by_key_[place.key] = at;
        statistics_.peak_open = std::max(statistics_.peak_open, places_.size() - free_.size());
        return at;
    }

    // Ends of connections

    void end_idle(std::uint32_t place) {
        if (std::exchange(places_[place].is_idle, false)) {
            const auto list = idle_.find(places_[place].idle_limit);
            list->second.remove(places_, place);
            if (list->second.empty()) {
                idle_.erase(list); // a trace may have any number of limits
            }
        }
    }

    /// The connection that we may close of which `when` is least; kNone where there is none.
    template <typename When> std::uint32_t first_idle(When when) const {
        std::uint32_t first = kNone;
        if (options_.server_closes) {
            return first;
        }
        for (const auto& [limit, list] : idle_) {
            const std::uint32_t one = list.front();
            if (first == kNone ||
                std::invoke(when, places_[one]) < std::invoke(when, places_[first])) {
                first = one;
            }
        }
        return first;
    }

    void end_soon(std::uint32_t place) {
        if (!std::exchange(places_[place].over, true)) {
            over_.push_back(place);
        }
    }

    /// Where the connection has nothing to do it is idle from now on, or may go.
    void rest(std::uint32_t at) {
        ConnectionPlace& place = places_[at];
        if (!place.connection->queue().idle()) {
            return;
        }
        if (place.ending != Ending::kOpen && !options_.server_closes) {
            end_soon(at);
        } else if (!std::exchange(place.is_idle, true)) {
            place.idle_since = clock_.now();
            idle_[place.idle_limit].push_back(places_, at);
        }
    }

    /// Closes what was found to be over while somebody was working on it.
    void settle() {
        while (!over_.empty()) {
            const std::uint32_t at = over_.back();
            over_.pop_back();
            ConnectionPlace& place = places_[at];
            if (!std::exchange(place.over, false)) {
                continue; // lost meanwhile, perhaps followed by another
            }
            if (place.connection->over()) {
                place.connection->handle(EPOLLHUP);
                if (place.connection->loss()) {
                    lose(at);
                }
            } else if (place.connection->queue().idle()) {
                ++(place.ending == Ending::kUsedUp ? statistics_.closed_used_up
                                                   : statistics_.closed_by_trace);
                close_in_order(at);
            }
        }
    }

    void close_in_order(std::uint32_t place) {
        places_[place].connection->say_goodbye();
        close(place);
    }

    void close(std::uint32_t place) {
        end_idle(place);
        if (const auto known = by_key_.find(places_[place].key);
            known != by_key_.end() && known->second == place) {
            by_key_.erase(known);
        }
        places_[place] = {};
        tools_.parts.resources.give_back_descriptor();
        free_.push_back(place);
    }

    /// The connection is gone. The reason counts where queries suffered from it.
    void lose(std::uint32_t place) {
        Connection& connection = *places_[place].connection;
        const bool established = connection.established();
        const auto [reason, by_server] = connection.loss().value_or(Connection::Loss{});
        statistics_.closed_by_server += established && by_server ? 1U : 0U;
        statistics_.connections_failed += established ? 0U : 1U;
        if (!connection.queue().idle()) {
            statistics_.count_failure(reason);
            if (!std::exchange(warned_, true)) {
                spdlog::warn("event=connection_failed because={} note=\"the first one; all are "
                             "counted by reason\"",
                             log_value(reason));
            }
        }
        const ConnectionQueue::Loss loss = connection.queue().lose(queries_, established);
        close(place);
        for (const std::uint32_t pending : loss.failed) {
            queries_[pending].place = kNone;
            tools_.parts.events.on_failed(pending, Status::kConnectionFailed);
        }
        bool possible = true; // what one of them cannot do the others cannot either
        for (const std::uint32_t pending : loss.retry) {
            tools_.parts.matcher.remove(pending);
            queries_[pending].place = kNone;
            queries_[pending].record.marks &=
                static_cast<std::uint16_t>(~(kMarkEarlyData | kMarkResumed));
            statistics_.retried += queries_[pending].flying ? 1U : 0U;
            possible = possible && submit(pending) == SendResult::kTaken;
            if (!possible) {
                tools_.parts.events.on_failed(pending, Status::kConnectionFailed);
            }
        }
    }

    ConnectionTools tools_;
    PendingQueries& queries_;
    Statistics& statistics_;
    const Clock& clock_;
    const ReplayOptions& options_;
    std::uint8_t number_;
    std::vector<ConnectionPlace> places_;
    std::vector<std::uint32_t> free_;
    std::vector<std::uint32_t> over_; ///< to be closed as soon as nobody works on them
    /// Those without a query, by how long they may stay so (few different times); longest idle
    /// first.
    std::map<Nanoseconds, IndexList<&ConnectionPlace::idle>> idle_;
    std::unordered_map<std::uint64_t, std::uint32_t> by_key_;
    bool warned_ = false;
    bool warned_ports_ = false;
};

} // namespace

std::unique_ptr<Carrier> connection_carrier(const CarrierWish& wish, const CarrierParts& parts) {
    return std::make_unique<ConnectionCarrier>(wish, parts);
}

} // namespace reprise::querier
