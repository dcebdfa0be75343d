#pragma once
// Answers DNS over TCP without keeping connections, as Huston's DNS proxy does.
//
// Problem. A TCP connection costs a server memory and work, and DNS needs little of it: one query
// goes one way and one answer the other.
//
// Idea. What a segment needs to be answered stands in the segment. A SYN is answered by a SYN/ACK,
// a FIN by an ACK. A query's segment says where the answer begins (its acknowledgement number is
// the sequence number of the next byte to the client) and what it acknowledges (its own end). The
// query goes to the server over UDP; until the answer comes, an entry maps its message id to the
// client and these two numbers. The answer, with its size in front, is cut into segments that are
// all sent at once, and the entry is gone. No window is heeded, nothing is sent again, nobody's
// address is proven.
//
// What that costs the client: a query must be whole in one segment, an answer that is lost after
// its query was acknowledged never comes, and no FIN follows unless asked for (`fin_last`). A
// second query of a connection is dropped while one is in flight, without an acknowledgement, so
// that the client's TCP sends it again: the two answers would begin at the same number.
//
// Entries: one a connection, which is more than Huston's (he has one a query), so that a query
// sent again by the client is known.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/userspace/segment.hh"

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace reprise::proxy::stateless {

// The queries that wait for the server's answer: all that the front remembers.

/// Sockets that ask the server, of each family. A query is known by its socket and its message id,
/// so that four times 65,536 can be told apart.
inline constexpr unsigned kSockets = 4;

/// Names an entry: the number of the socket, and in the lower 16 bits the message id.
using QueryKey = std::uint32_t;

struct Pending {
    Connection connection;
    QueryKey key = 0;            ///< as the server sees it
    std::uint16_t client_id = 0; ///< the client's message id
    std::uint16_t mss = 0;
    std::uint32_t query_seq = 0; ///< of the segment with the query
    std::uint32_t seq = 0;       ///< of the answer's first byte
    std::uint32_t ack = 0;       ///< what the answer acknowledges
    std::uint32_t question = 0;  ///< hash of the question; 0 where it could not be read
    Nanoseconds deadline = 0;
};

/// At most one entry a connection. The timeout is the same for all, so entries expire in the order
/// in which they came.
class ForwardedQueries {
public:
    /// `random` must outlive this.
    ForwardedQueries(size_t limit, Random& random) : limit_(limit), random_(random) {}

    /// Adds an entry under a new random key; where there is no room the oldest one goes first.
    /// Good until the next call.
    const Pending& add(Pending entry);

    [[nodiscard]] const Pending* find(const Connection& connection) const;
    [[nodiscard]] const Pending* find(QueryKey key) const;

    /// Takes an entry out, if there is one.
    void remove(const Connection& connection);

    /// Removes the entries whose deadline has come; how many. What is added and removed before the
    /// next call is so at this time.
    size_t expire(Nanoseconds now);

    /// The first deadline.
    [[nodiscard]] std::optional<Nanoseconds> next_due() const;

    [[nodiscard]] size_t size() const { return entries_.size(); }

    [[nodiscard]] size_t peak() const { return peak_; }

    [[nodiscard]] size_t limit() const { return limit_; }

    [[nodiscard]] size_t evictions() const { return evictions_; }

    /// The lives of all entries until the last expire(), summed.
    [[nodiscard]] Nanoseconds lived() const {
        return lived_ + static_cast<Nanoseconds>(entries_.size()) * now_;
    }

    /// As measured: the nodes of the list and of both tables, and the tables' places.
    static constexpr size_t kBytesPerEntry = 96 + 64 + 32 + 24;

private:
    using Entries = std::list<Pending>; ///< the oldest first

    void erase(Entries::iterator entry);

    size_t limit_;
    Random& random_;
    Entries entries_;
    std::unordered_map<Connection, Entries::iterator> by_connection_;
    std::unordered_map<QueryKey, Entries::iterator> by_key_;
    Nanoseconds now_ = 0;
    Nanoseconds lived_ = 0; ///< when entries went less when they came
    size_t peak_ = 0;
    size_t evictions_ = 0;
};

/// What the responder asks of the world.
class Outside {
public:
    Outside() = default;
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;
    virtual ~Outside() = default;

    virtual void send(const Reply& reply) = 0;

    /// Asks the server over UDP from one of kSockets sockets.
    virtual void ask(unsigned socket, const Endpoint& server, Bytes message) = 0;

    /// Relays the connection from this segment on, over TCP to the server; false where it cannot.
    virtual bool relay(const Segment& segment, std::uint16_t mss, Nanoseconds now) = 0;

    /// Whether the segment belongs to a connection that is relayed; it is dealt with then.
    virtual bool relayed(const Segment& segment, Nanoseconds now) = 0;
};

class Responder {
public:
    /// `mtu`: of the interface. All that is given by reference must outlive this.
    Responder(const StatelessOptions& options, size_t mtu, std::uint64_t secret, Random& random,
              Outside& outside, StatelessCounts& counters);

    /// A packet from a client. Any bytes are allowed.
    void take_packet(Bytes packet, Nanoseconds now);

    /// A datagram from the server's side at one of kSockets sockets. `prefixed`: two bytes of room
    /// and the message; changed.
    void take_answer(unsigned socket, const Endpoint& from, std::span<std::uint8_t> prefixed,
                     Nanoseconds now);

    /// Removes the entries whose time is up.
    void expire(Nanoseconds now) { counters_.expired += pending_.expire(now); }

    [[nodiscard]] std::optional<Nanoseconds> next_due() const { return pending_.next_due(); }

    [[nodiscard]] const ForwardedQueries& pending() const { return pending_; }

private:
    void accept(const Segment& segment);
    void acknowledge(const Segment& segment, std::uint8_t more = 0);
    void take_data(const Segment& segment, Nanoseconds now);
    void take_query(const Segment& segment, Bytes message, Nanoseconds now);
    void relay(const Segment& segment, Nanoseconds now);
    void ask(const Pending& entry, Bytes message);
    void answer(const Pending& entry, Bytes stream);

    const StatelessOptions& options_;
    Outside& outside_;
    StatelessCounts& counters_;
    SequenceNumbers numbers_;
    ForwardedQueries pending_;
    std::vector<std::uint8_t> query_; ///< room for a query with another id
};

/// Whether a query is for AXFR, looked for in its first 64 bytes as in the report.
bool asks_transfer(Bytes message);

} // namespace reprise::proxy::stateless
