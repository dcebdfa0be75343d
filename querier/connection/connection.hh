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

#include "core/dns/message.hh"
#include "core/wire/query.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"
#include "querier/connection/tls_connection.hh"
#include "querier/schedule/pending_queries.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace reprise::querier {

// One connection: the queries that are on it, and what travels.

/// Cuts what TCP brings into DNS messages, each behind a two-byte length (RFC 1035 section 4.2.2),
/// however that is split. Holds at most one incomplete message (64 KiB) and no memory between
/// messages.
class ReplyReader {
public:
    /// Calls `take` for each message that is now whole; the bytes are lent for the call. False: a
    /// length below 12, the size of a DNS header; nothing after it can be trusted, so end the
    /// connection.
    template <typename Take> bool feed(std::span<std::uint8_t> data, const Take& take) {
        constexpr size_t kPrefix = 2;
        std::vector<std::uint8_t> joined = std::exchange(rest_, {});
        if (!joined.empty()) {
            joined.insert(joined.end(), data.begin(), data.end());
            data = joined;
        }
        while (data.size() >= kPrefix) {
            const size_t size = load16(data.data());
            if (size < kDnsHeaderSize) {
                return false;
            }
            if (data.size() < kPrefix + size) {
                break;
            }
            take(data.subspan(kPrefix, size));
            data = data.subspan(kPrefix + size);
        }
        rest_.assign(data.begin(), data.end());
        return true;
    }

private:
    std::vector<std::uint8_t> rest_;
};

/// The queries of one connection: those waiting to be written and those written and not yet
/// answered. Decides what becomes of them when the connection is lost.
class ConnectionQueue {
public:
    /// A new query waits for its turn.
    void enqueue(PendingQueries& queries, std::uint32_t pending);

    /// The next query to write, or kNone.
    [[nodiscard]] std::uint32_t next() const { return waiting_.front(); }

    /// Its bytes were handed to the kernel, or at least tried to be.
    void started(PendingQueries& queries, std::uint32_t pending);

    /// What was written never arrived: it waits again, before the others. The queries concerned.
    std::vector<std::uint32_t> take_back(PendingQueries& queries);

    /// All that wait count as handed over.
    void start_all(PendingQueries& queries);

    /// Calls `action(PendingQuery&)` for each written query.
    template <typename Action>
    void for_flying(PendingQueries& queries, const Action& action) const {
        for (std::uint32_t pending = flying_.front(); pending != kNone;
             pending = queries[pending].on_connection.next) {
            action(queries[pending]);
        }
    }

    /// The query ended (answered, timed out); it leaves.
    void remove(PendingQueries& queries, std::uint32_t pending);

    /// Something was written and is not answered.
    [[nodiscard]] bool flying() const { return !flying_.empty(); }

    /// Nobody needs the connection.
    [[nodiscard]] bool idle() const { return waiting_.empty() && flying_.empty(); }

    /// The connection is gone: empties the queue, in the order the queries came.
    /// A connection that was never established fails all of them. Of one that was, written queries
    /// are tried once more (their retry is counted here), and fail the second time; waiting ones
    /// were not touched and simply move.
    struct Loss {
        std::vector<std::uint32_t> retry;
        std::vector<std::uint32_t> failed;
    };

    Loss lose(PendingQueries& queries, bool established);

private:
    using List = IndexList<&PendingQuery::on_connection>;

    List waiting_;
    List flying_;
};

/// A socket and the bytes that the kernel has not taken, which go before anything else.
class BufferedSocket {
public:
    BufferedSocket(std::unique_ptr<TcpSocket> socket, Resources& resources)
        : socket_(std::move(socket)), resources_(resources) {}

    ~BufferedSocket() { resources_.owed -= tail_.size(); }

    TcpSocket* operator->() { return socket_.get(); }

    /// Nothing waits.
    [[nodiscard]] bool clear() const { return tail_.empty(); }

    /// These bytes wait.
    void owe(Bytes bytes);

    /// Sends what waits. False with errno: the connection is broken.
    bool flush();

    /// Sends bytes that must not be lost: what the kernel does not take now waits. False with
    /// errno: the connection is broken. Empties `bytes`.
    bool send_all(std::vector<std::uint8_t>& bytes);

private:
    std::unique_ptr<TcpSocket> socket_;
    Resources& resources_;
    std::vector<std::uint8_t> tail_;
};

/// What the connections of a carrier work with.
struct ConnectionTools {
    CarrierParts parts;
    TlsClient tls;
    bool acknowledge_now = true;         ///< an answer, while others are awaited
    std::vector<std::uint8_t> buffer{};  ///< one read
    std::vector<std::uint8_t> segment{}; ///< one query with its length
};

/// Where a connection comes from.
struct ConnectionOrigin {
    std::uint32_t number = 0;     ///< from 1, never used again
    std::uint64_t client = 0;     ///< whose it is, for TLS sessions
    std::uint32_t opener = kNone; ///< the query that opens it
    Endpoint server;
    bool secure = false; ///< by TLS
    Nanoseconds syn = 0; ///< when it was begun
    EventTag tag;
};

class Connection {
public:
    /// Why it is over.
    struct Loss {
        std::string_view reason; ///< good as long as the connection
        bool by_server = true;
    };

    /// `tools` must outlive it.
    Connection(ConnectionTools& tools, std::unique_ptr<TcpSocket> socket,
               const ConnectionOrigin& origin);
    ~Connection();

    [[nodiscard]] const ConnectionOrigin& origin() const { return origin_; }

    [[nodiscard]] ConnectionQueue& queue() { return queue_; }

    /// Queries may be written: TCP connected, TLS shaken hands.
    [[nodiscard]] bool established() const { return established_; }

    /// Nothing more may be done with it but to close it.
    [[nodiscard]] const std::optional<Loss>& loss() const { return loss_; }

    /// It is lost, or a write failed: then handle() reads what still came before it is lost.
    [[nodiscard]] bool over() const { return loss_ || write_error_ != 0; }

    /// Something happened. False: there may be more to read.
    bool handle(std::uint32_t events);

    /// Writes what waits, where it is established.
    void write();

    /// The query ended.
    void forget(std::uint32_t pending);

    /// The query's time, `timeout`, is up: the connection is lost where it did not stand after all
    /// that time, or where the server's host is silent.
    void expire(const PendingQuery& pending, Nanoseconds now, Nanoseconds timeout);

    /// Tells the server that nothing follows.
    void say_goodbye();

private:
    void finish_connect(std::uint32_t events);
    void establish();
    void write_early();
    void shake_hands();
    void settle_early_data();
    bool read(std::uint32_t events);
    void take(std::span<std::uint8_t> data);
    bool take_replies(std::span<std::uint8_t> data);
    bool write_one(std::uint32_t pending);
    void prepare(PendingQuery& pending);

    ConnectionTools& tools_;
    PendingQueries& queries_;
    const Clock& clock_;
    ConnectionOrigin origin_;
    BufferedSocket socket_;
    std::unique_ptr<TlsConnection> tls_; ///< null for TCP
    ConnectionQueue queue_;
    ReplyReader replies_;
    Nanoseconds received_ = 0; ///< when the bytes that are being read could be read
    std::optional<Loss> loss_;
    bool connected_ = false; ///< the SYN was answered
    bool established_ = false;
    bool wrote_ = false; ///< a query was handed to the kernel
    bool nagle_off_ = false;
    int write_error_ = 0;       ///< errno
    std::uint16_t next_id_ = 0; ///< to be tried for a query whose own id is in flight
};

/// The carrier of all connections. Throws Error where OpenSSL refuses the options of TLS.
std::unique_ptr<Carrier> connection_carrier(const CarrierWish& wish, const CarrierParts& parts);

} // namespace reprise::querier
