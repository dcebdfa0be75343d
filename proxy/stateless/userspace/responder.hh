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
#include "proxy/stateless/common/counters.hh"
#include "proxy/stateless/userspace/pending.hh"
#include "proxy/stateless/userspace/segment.hh"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace reprise::proxy::stateless {

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

struct ResponderSettings {
    std::uint16_t port = 53;
    Nanoseconds timeout = 3 * kSecond;
    bool early_ack = true;
    bool fin_last = false;
    bool axfr_detect = false;
    size_t entries = 65'536;
    size_t mtu = 1'500; ///< of the interface
    std::uint64_t secret = 0;
};

class Responder {
public:
    /// `random`, `outside` and `counters` must outlive this.
    Responder(const ResponderSettings& settings, Random& random, Outside& outside,
              Counters& counters);

    /// A packet from a client. Any bytes are allowed.
    void take_packet(Bytes packet, Nanoseconds now);

    /// A datagram from the server's side at one of kSockets sockets. `prefixed`: two bytes of room
    /// and the message; changed.
    void take_answer(unsigned socket, const Endpoint& from, std::span<std::uint8_t> prefixed,
                     Nanoseconds now);

    /// Removes the entries whose time is up.
    void expire(Nanoseconds now) { counters_.expired += pending_.expire(now); }

    [[nodiscard]] std::optional<Nanoseconds> next_due() const { return pending_.next_due(); }

    [[nodiscard]] const PendingQueries& pending() const { return pending_; }

private:
    void take_segment(const Segment& segment, Nanoseconds now);
    void accept(const Segment& segment);
    void acknowledge(const Segment& segment);
    void take_data(const Segment& segment, Nanoseconds now);
    void take_query(const Segment& segment, Bytes message, Nanoseconds now);
    void relay(const Segment& segment, Nanoseconds now);
    void ask(const Pending& entry, Bytes message);
    void answer(const Pending& entry, Bytes stream);

    ResponderSettings settings_;
    Outside& outside_;
    Counters& counters_;
    SequenceNumbers numbers_;
    PendingQueries pending_;
    std::vector<std::uint8_t> query_; ///< room for a query with another id
};

/// Whether a query is for AXFR, looked for in its first 64 bytes as in the report.
bool asks_transfer(Bytes message);

} // namespace reprise::proxy::stateless
