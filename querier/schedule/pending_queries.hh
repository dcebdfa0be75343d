#pragma once
// Where queries live from arrival to end, in one array whose size is fixed at the
// start (what the parent may have out plus the in-flight limit), so memory is bounded and an index
// stays good.

#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::querier {

// Doubly linked lists threaded through elements that live in an indexable store, so that a query
// can be in several orders at once (by key, by timeout, by connection) and leave each in constant
// time without an allocation.

/// "No element", for indices into stores.
inline constexpr std::uint32_t kNone = 0xffffffff;

/// The number of an element of the store that is to be used: one of `free`, or a new one.
std::uint32_t take_place(auto& store, std::vector<std::uint32_t>& free) {
    if (free.empty()) {
        store.emplace_back();
        return static_cast<std::uint32_t>(store.size() - 1);
    }
    const std::uint32_t place = free.back();
    free.pop_back();
    return place;
}

struct Links {
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
};

/// `Member` is the Links of the element type this list runs through. The list owns nothing; an
/// element must be in at most one list of the same member.
template <auto Member> class IndexList {
public:
    [[nodiscard]] bool empty() const { return head_ == kNone; }

    /// First element, or kNone.
    [[nodiscard]] std::uint32_t front() const { return head_; }

    void push_back(auto& store, std::uint32_t index) {
        store[index].*Member = {.previous = tail_, .next = kNone};
        if (tail_ == kNone) {
            head_ = index;
        } else {
            (store[tail_].*Member).next = index;
        }
        tail_ = index;
    }

    void remove(auto& store, std::uint32_t index) {
        const Links links = store[index].*Member;
        if (links.previous == kNone) {
            head_ = links.next;
        } else {
            (store[links.previous].*Member).next = links.next;
        }
        if (links.next == kNone) {
            tail_ = links.previous;
        } else {
            (store[links.next].*Member).previous = links.previous;
        }
        store[index].*Member = {};
    }

    /// Element after `index`, or kNone.
    static std::uint32_t after(const auto& store, std::uint32_t index) {
        return (store[index].*Member).next;
    }

private:
    std::uint32_t head_ = kNone;
    std::uint32_t tail_ = kNone;
};

/// A query on its way. `record` is what will be written when it ends and is filled in as things
/// happen.
struct PendingQuery {
    RqRecord record;
    /// record.query_size bytes: its own, or borrowed from the block the query came in until the
    /// next flush of its carrier, and null from then on.
    const std::uint8_t* message = nullptr;
    std::unique_ptr<std::uint8_t[]> own; ///< the message, where it is kept
    Endpoint source;                     ///< as in the trace
    std::uint64_t traced = 0;            ///< TCP connection in the trace; 0 = none
    std::uint64_t question = 0;          ///< see question_hash(); 0 = none
    Owner owner = 0;                     ///< in the Matcher's keys
    Nanoseconds deadline = 0;            ///< CLOCK_MONOTONIC; set when the query is in flight
    Links by_key;                        ///< Matcher: same (owner, id, question)
    Links by_id;                         ///< Matcher: same (owner, id)
    Links by_deadline;
    Links on_connection; ///< waiting to be written, or written
    Links by_hedge;
    std::uint32_t place = kNone;  ///< of the socket or connection in its carrier
    std::uint32_t pair = kNone;   ///< of a hedged query (see hedges.hh)
    std::uint16_t id = 0;         ///< the message's own
    std::uint16_t idle_class = 0; ///< as Query's
    std::uint16_t wire_id = 0;    ///< id as sent; differs from the message's where rewritten
    Transport transport = Transport::kUdp; ///< what it travels by now
    std::uint8_t carrier = 0;              ///< its carrier, by number (see Carriers)
    std::uint8_t peer = 0;                 ///< of a hedged query's copy, from 1; 0 = the server
    bool watched = false;                  ///< it will be hedged
    bool waited = false;                   ///< its lateness is not the schedule's (kMarkWaited)
    bool in_flight = false;                ///< in the order of deadlines
    bool staged = false;                   ///< it leaves with the next flush
    bool keyed = false;                    ///< known to the Matcher
    bool written = false;                  ///< handed to the kernel at least once
    bool flying = false;                   ///< TCP: on its connection's list of written queries

    [[nodiscard]] Bytes bytes() const { return {message, record.query_size}; }

    [[nodiscard]] std::uint8_t family() const { return source.address.family; }
};

/// Its time of sending is the beginning of the call: latency is never shorter than it was.
inline void note_call(PendingQuery& pending, const SendCall& call) {
    pending.record.send = call.before;
    pending.record.marks |= call.unsure() ? kMarkUnsure : std::uint16_t{0};
}

class PendingQueries {
public:
    explicit PendingQueries(size_t capacity) : capacity_(capacity) { queries_.reserve(capacity); }

    PendingQuery& operator[](std::uint32_t index) { return queries_[index]; }

    const PendingQuery& operator[](std::uint32_t index) const { return queries_[index]; }

    /// Takes the query in, its message borrowed, or kNone when all are taken.
    std::uint32_t take(const Query& query);

    /// A copy of another one for a peer, not sent yet; kNone when all are taken. That one's
    /// message must be kept.
    std::uint32_t copy(std::uint32_t index, std::uint8_t peer);

    /// It gets its own copy of its message.
    void keep(std::uint32_t index);

    /// What a borrowed message points to goes away.
    void let_go(std::uint32_t index);

    void give_back(std::uint32_t index);

    /// No place is left.
    [[nodiscard]] bool full() const { return free_.empty() && queries_.size() == capacity_; }

    /// Of messages of their own.
    [[nodiscard]] size_t kept_bytes() const { return kept_bytes_; }

    [[nodiscard]] size_t used() const { return queries_.size() - free_.size(); }

private:
    /// Messages up to this size get memory of this size, which is used again.
    static constexpr size_t kSmall = 128;

    static size_t kept_size(const PendingQuery& pending) {
        return std::max<size_t>(pending.record.query_size, kSmall);
    }

    std::uint32_t fresh();

    size_t capacity_;
    std::vector<PendingQuery> queries_; ///< never reallocates; pages are touched as they are needed
    std::vector<std::uint32_t> free_;
    /// Memory of small messages that are no longer kept.
    std::vector<std::unique_ptr<std::uint8_t[]>> spare_;
    size_t kept_bytes_ = 0;
};

} // namespace reprise::querier
