#pragma once
// Where queries live from arrival to end, in one array whose size is fixed at the
// start (what the parent may have out plus the in-flight limit), so memory is bounded and an index
// stays good.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/query.hh"
#include "core/wire/result_file.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/message_store.hh"
#include "querier/sockets/transport.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace reprise::querier {

/// A query on its way. `record` is what will be written when it ends and is filled in as things
/// happen.
struct PendingQuery {
    RqRecord record;
    /// record.query_size bytes: in the MessageStore, or borrowed from the block the query came in
    /// until the next flush of the transport, and null from then on.
    const std::uint8_t* message = nullptr;
    Endpoint source;            ///< as in the trace
    std::uint64_t traced = 0;   ///< TCP connection in the trace; 0 = none
    std::uint64_t question = 0; ///< see question_hash(); 0 = none
    Owner owner = 0;            ///< in the Matcher's keys
    Nanoseconds deadline = 0;   ///< CLOCK_MONOTONIC; set when the query is in flight
    Links by_key;               ///< Matcher: same (owner, id, question)
    Links by_id;                ///< Matcher: same (owner, id)
    Links by_deadline;
    Links on_connection; ///< TCP: waiting to be written, or written
    Links by_hedge;
    std::uint32_t place = kNone;         ///< index of the socket or connection in its transport
    std::uint32_t pair = kNone;          ///< of a hedged query (see hedges.hh)
    std::uint16_t id = 0;                ///< the message's own
    std::uint16_t idle_class = 0;        ///< as Query's
    std::uint16_t wire_id = 0;           ///< id as sent; differs from the message's where rewritten
    Transport carrier = Transport::kUdp; ///< what it travels by now
    std::uint8_t peer = 0;               ///< UDP: whom it goes to, by number; 0 = the server itself
    bool kept = false;                   ///< the message lies in the MessageStore
    bool watched = false;                ///< it will be hedged (see hedges.hh)
    bool waited = false;                 ///< it was held back by the source's query before
    bool in_flight = false;              ///< in the order of deadlines
    bool keyed = false;                  ///< known to the Matcher
    bool written = false;                ///< handed to the kernel at least once
    bool flying = false;                 ///< TCP: on its connection's list of written queries

    [[nodiscard]] Bytes bytes() const { return {message, record.query_size}; }

    [[nodiscard]] std::uint8_t family() const { return source.address.family; }
};

/// Its time of sending is the beginning of the call: latency is never shorter than it was.
inline void note_call(PendingQuery& pending, const SendCall& call) {
    pending.record.send = call.before;
    pending.record.marks |= call.unsure() ? kMarkUnsure : std::uint16_t{0};
}

/// Which local address a query leaves from; nothing = there is none for it.
using SourceOf = std::function<std::optional<IpAddress>(const PendingQuery&)>;

class PendingQueries {
public:
    explicit PendingQueries(size_t capacity) : capacity_(capacity) { queries_.reserve(capacity); }

    PendingQuery& operator[](std::uint32_t index) { return queries_[index]; }

    const PendingQuery& operator[](std::uint32_t index) const { return queries_[index]; }

    /// Takes the query in, its message borrowed, or kNone when all are taken.
    std::uint32_t take(const Query& query);

    /// A copy of another one, not sent yet; kNone when all are taken. That one's
    /// message must be kept.
    std::uint32_t copy(std::uint32_t index);

    /// It gets its own copy of its message.
    void keep(std::uint32_t index);

    /// What a borrowed message points to goes away.
    void let_go(std::uint32_t index);

    void give_back(std::uint32_t index);

    /// No place is left.
    [[nodiscard]] bool full() const { return free_.empty() && queries_.size() == capacity_; }

    /// Of messages of their own.
    [[nodiscard]] size_t kept_bytes() const { return messages_.used(); }

    [[nodiscard]] size_t used() const { return queries_.size() - free_.size(); }

private:
    std::uint32_t fresh();

    size_t capacity_;
    std::vector<PendingQuery> queries_; ///< never reallocates; pages are touched as they are needed
    std::vector<std::uint32_t> free_;
    MessageStore messages_;
};

} // namespace reprise::querier
