#pragma once
// Queries over TCP and TLS, on connections as clients keep them.
//
// Which connection a query takes: the one that stands for its connection in the trace, where it had
// one; otherwise its source's, opened by the first query and reused while it lasts, for at most
// `queries_per_connection` queries. A hedged query's copy takes its source's to the peer. Queries
// are pipelined, one segment each (over TLS one record each; the first shares its segment with the
// handshake's end); answers may come in any order.
//
// A connection ends when the server closes it; or, unless the server is to close first, when it was
// idle for the idle timeout, when it has carried its queries, or when the trace's client closed
// it; never by us while a query is in flight. What a lost connection leaves unanswered is tried
// once more on a new one.
//
// A connection with one id in flight twice could not tell the answers apart, so the second query's
// id is rewritten (and restored in what we record). A zone transfer's further messages come behind
// the first, which ended the query: they are counted as duplicates.
//
// Events are edge-triggered: a connection costs one epoll_ctl in its life.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/wire/query.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/poller.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/carrier/socket.hh"
#include "querier/connection/connection.hh"
#include "querier/schedule/pending_queries.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace reprise::querier {

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
};

/// Connections without a query, by how long they may stay so (few different times).
class IdleConnections {
public:
    using Places = std::vector<ConnectionPlace>;

    void add(Places& places, std::uint32_t place, Nanoseconds now);

    /// Where it is one of them.
    void remove(Places& places, std::uint32_t place);

    /// The one that has stayed longest; kNone where there is none.
    [[nodiscard]] std::uint32_t longest(const Places& places) const {
        return first(places, [](const ConnectionPlace& one) { return one.idle_since; });
    }

    /// The one whose time is up first.
    [[nodiscard]] std::uint32_t next(const Places& places) const { return first(places, end_of); }

    /// When its time is up.
    static Nanoseconds end_of(const ConnectionPlace& one) {
        return one.idle_since + one.idle_limit;
    }

private:
    template <typename When> std::uint32_t first(const Places& places, When when) const {
        std::uint32_t first = kNone;
        for (const auto& [limit, list] : lists_) {
            if (first == kNone || when(places[list.front()]) < when(places[first])) {
                first = list.front();
            }
        }
        return first;
    }

    std::map<Nanoseconds, IndexList<&ConnectionPlace::idle>> lists_; ///< longest idle first
};

class ConnectionCarrier final : public Carrier {
public:
    /// Throws Error where OpenSSL refuses the options of TLS.
    ConnectionCarrier(const CarrierWish& wish, const CarrierParts& parts);

    void prepare(const Query& query) override;
    SendResult submit(std::uint32_t pending) override;
    bool handle(const EventTag& tag, std::uint32_t events) override;
    void release(std::uint32_t pending) override;
    bool expire(std::uint32_t pending, Nanoseconds now) override;
    void tidy(Nanoseconds now) override;
    bool evict() override;
    [[nodiscard]] Nanoseconds next_wake(Nanoseconds now) const override;

private:
    [[nodiscard]] std::optional<Endpoint> server_of(const PendingQuery& pending) const;
    std::uint32_t connection_for(std::uint32_t pending, SendResult& result);
    SendResult refused(int error, const Endpoint& server);
    std::uint32_t adopt(OpenedSocket opened, std::uint32_t pending);
    void end_soon(std::uint32_t place);
    void end_when_idle(std::uint32_t place);
    void settle();
    void close_in_order(std::uint32_t place);
    void close(std::uint32_t place);
    void lose(std::uint32_t place);

    ConnectionTools tools_;
    PendingQueries& queries_;
    Statistics& statistics_;
    const Clock& clock_;
    std::vector<Servers> servers_; ///< by PendingQuery's `peer`: first the server under test
    ConnectionOptions options_;
    SourceOf source_;
    std::uint8_t number_;
    Nanoseconds timeout_; ///< of a query
    bool kernel_stamps_;  ///< answers carry the time their segment arrived

    std::vector<ConnectionPlace> places_;
    std::vector<std::uint32_t> free_;
    std::vector<std::uint32_t> over_; ///< to be closed as soon as nobody works on them
    IdleConnections idle_;
    std::unordered_map<std::uint64_t, std::uint32_t> by_key_;
    std::uint32_t last_number_ = 0;
    bool warned_ = false;
    bool warned_ports_ = false;
};

} // namespace reprise::querier
