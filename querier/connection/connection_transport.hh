#pragma once
// Queries over TCP and TLS, on connections as clients keep them.
//
// Which connection a query takes: the one that stands for its connection in the trace, where it had
// one; otherwise its source's, opened by the first query and reused while it lasts, for at most
// `queries_per_connection` queries. Queries are pipelined, one segment each (over TLS one record
// each; the first shares its segment with the handshake's end); answers may come in any order.
//
// A connection ends when the server closes it; or, unless the server is to close first, when it was
// idle for the idle timeout, when it has carried its queries, or when the trace's client closed
// it; never by us while a query is in flight. What a lost connection leaves unanswered is tried
// once more on a new one.
//
// A connection with one id in flight twice could not tell the answers apart, so the second query's
// id is rewritten (and restored in what we record). An AXFR's further messages have the same key as
// the first, which ended the query: they are counted as duplicates.
//
// Events are edge-triggered: a connection costs one epoll_ctl in its life.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/query.hh"
#include "querier/connection/connection_queue.hh"
#include "querier/connection/reply_reader.hh"
#include "querier/connection/tls_connection.hh"
#include "querier/network/connection_options.hh"
#include "querier/network/network.hh"
#include "querier/network/tcp_socket.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/sockets/descriptors.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/stamps.hh"
#include "querier/sockets/transport.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprise::querier {

/// What the transport works with; all must outlive it.
struct ConnectionParts {
    Network& network;
    Descriptors& descriptors;
    PendingQueries& queries;
    Matcher& matcher;
    const StampClock& stamps;
    Statistics& statistics;
    TransportEvents& events;
};

class ConnectionTransport {
public:
    /// `source` empty: connections leave from the host's own address.
    ConnectionTransport(const ConnectionParts& parts, const Servers& servers,
                        ConnectionOptions options, SourceOf source);

    /// Hands the query to its connection. On kDone the transport has it until on_failed(), detach()
    /// or an answer; on_failed() may come before this returns, so the query must not be touched
    /// afterwards.
    SendResult submit(std::uint32_t pending);

    /// Something happened on a connection. False: there may be more to read.
    bool handle(const EventTag& tag, std::uint32_t events);

    /// The query ended; its connection forgets it.
    void detach(std::uint32_t pending);

    /// The query's time is up. True where its connection did not stand after all that time: all
    /// queries on it have failed. A connection whose server is gone is given up at the next tidy().
    bool timed_out(std::uint32_t pending, Nanoseconds now);

    /// The trace's client closed this connection.
    void close_traced(const Query& marker);

    /// Closes connections that are done with or were idle for the idle timeout; bounded.
    void tidy(Nanoseconds now);

    /// Connections that are not yet ready for queries: their next step should not wait.
    [[nodiscard]] size_t opening() const { return opening_; }

    /// Bytes of queries that the kernel has not taken; they outlive queries that time out.
    [[nodiscard]] size_t owed() const { return owed_; }

    /// When tidy() has something to do; far in the future where never.
    [[nodiscard]] Nanoseconds next_idle() const;

    /// Closes the least recently used idle connection; false where there is none, or it is the
    /// server who closes.
    bool evict_idle();

private:
    /// Why a connection ends when nothing waits on it any more.
    enum class Ending : std::uint8_t {
        kOpen,
        kUsedUp,
        kByTrace,
        kDead,  ///< the server's host is silent
        kBroken ///< a write failed: what can still be read is read first
    };

    struct Connection {
        std::unique_ptr<TcpSocket> socket;
        std::uint64_t key = 0;
        std::uint32_t number = 0; ///< from 1, never used again
        std::uint32_t generation = 0;
        std::uint32_t source = 0;
        std::uint32_t used = 0;       ///< queries that took it
        std::uint32_t written = 0;    ///< queries that were handed to the kernel
        std::uint32_t opener = kNone; ///< query that opens it, until it is established
        Endpoint server;
        Ending ending = Ending::kOpen;
        bool secure = false;      ///< by TLS
        bool connected = false;   ///< the SYN was answered
        bool established = false; ///< queries may be written: TCP connected, TLS shaken hands
        bool is_idle = false;
        bool single = false; ///< for one query, whatever the options say
        bool nagle_off = false;
        int write_error = 0;       ///< errno of kBroken
        std::uint16_t next_id = 0; ///< to be tried for a query whose own id is in flight
        bool over = false;         ///< on the list of connections to be closed
        Nanoseconds syn = 0;
        Nanoseconds idle_since = 0;
        Nanoseconds idle_limit = 0; ///< may stay without a query for so long
        ConnectionQueue queue;
        std::vector<std::uint8_t> tail; ///< what the kernel did not take
        ReplyReader replies;
        std::unique_ptr<TlsConnection> tls; ///< null for TCP
        Links idle;
    };

    [[nodiscard]] const std::optional<Endpoint>& server_of(const PendingQuery& pending) const;
    SendResult attach(std::uint32_t pending);
    std::uint32_t connection_for(std::uint32_t pending, SendResult& result);
    SendResult refused(int error, const Endpoint& server);
    std::uint32_t adopt(OpenedSocket opened, std::uint32_t pending);
    void use(std::uint32_t place);

    // Opening
    void finish_connect(std::uint32_t place, std::uint32_t events);
    void start_tls(std::uint32_t place);
    void write_early(Connection& connection);
    void shake_hands(std::uint32_t place);
    void settle_early_data(Connection& connection);
    void on_established(std::uint32_t place);
    void on_established_too_late(Connection& connection);

    // Reading
    void read(std::uint32_t place, std::uint32_t events);
    void take(std::uint32_t place, std::span<std::uint8_t> data, Nanoseconds received);
    void take_tls(std::uint32_t place, Nanoseconds received);
    bool take_replies(std::uint32_t place, std::span<std::uint8_t> data, Nanoseconds received);

    // Writing
    void owe(Connection& connection, std::span<const std::uint8_t> bytes);
    bool flush_tail(Connection& connection);
    void write(std::uint32_t place);
    bool write_one(std::uint32_t place, std::uint32_t pending);
    void prepare(Connection& connection, PendingQuery& pending);
    /// Sends bytes that must not be lost: what the kernel does not take now stays in the tail.
    bool send_all(Connection& connection, std::vector<std::uint8_t>& bytes);

    /// The place still holds the connection it held at this generation.
    [[nodiscard]] bool alive(std::uint32_t place, std::uint32_t generation) const;

    // Closing
    void set_idle(std::uint32_t place, bool idle);
    /// Of the connections without a query the one whose `when` is least; kNone where there is none.
    template <typename When> [[nodiscard]] std::uint32_t first_idle(When when) const;
    [[nodiscard]] std::uint32_t first_due() const;
    void end_when_idle(std::uint32_t place);
    void lose(std::uint32_t place, std::string_view reason, bool by_server = true);
    void give_up(std::uint32_t place);
    void end_soon(std::uint32_t place, Ending ending);
    void close_in_order(std::uint32_t place);
    void close(std::uint32_t place);
    void settle();
    void drain(std::uint32_t place);
    void count_end(const Connection& connection);

    Network& network_;
    const Clock& clock_;
    Descriptors& descriptors_;
    PendingQueries& queries_;
    Matcher& matcher_;
    const StampClock& stamps_;
    Statistics& statistics_;
    TransportEvents& events_;
    Servers servers_;
    Servers tls_servers_;
    ConnectionOptions options_;
    SourceOf source_;
    std::unique_ptr<TlsClient> tls_; ///< null where TLS is not set up

    std::vector<Connection> connections_;
    std::vector<std::uint32_t> free_;
    std::vector<std::uint32_t> over_; ///< to be closed as soon as nobody works on them
    /// Without a query, by idle_limit (few different ones); longest idle first.
    std::map<Nanoseconds, IndexList<&Connection::idle>> idle_;
    std::unordered_map<std::uint64_t, std::uint32_t> by_key_;
    std::uint32_t last_number_ = 0;
    size_t opening_ = 0;
    size_t owed_ = 0;                   ///< in the tails of all connections
    std::vector<std::uint8_t> buffer_;  ///< one read
    std::vector<std::uint8_t> segment_; ///< one query with its length
    bool warned_ = false;
    bool warned_ports_ = false;
    bool unread_ = false; ///< the event at hand left bytes to be read
};

} // namespace reprise::querier
