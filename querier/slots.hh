#pragma once
// Where queries live from arrival to end: one slot each, in one array whose size is fixed at the
// start (what the parent may have out plus the in-flight limit), so memory is bounded and an index
// stays good.

#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/query.hh"
#include "core/result_file.hh"
#include "querier/links.hh"
#include "querier/message_store.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::querier {

/// A query on its way. `record` is what will be written when it ends and is filled in as things
/// happen.
struct Slot {
    RqRecord record;
    std::uint8_t* message = nullptr; ///< record.query_size bytes in the MessageStore
    std::uint64_t question = 0;      ///< see question_hash(); 0 = none
    Nanoseconds deadline = 0;        ///< CLOCK_MONOTONIC; set when the query is in flight
    Links by_key;                    ///< Matcher: same (owner, id, question)
    Links by_id;                     ///< Matcher: same (owner, id)
    Links by_deadline;
    Links on_connection;         ///< TCP: waiting to be written, or written
    std::uint32_t owner = 0;     ///< socket or connection in the Matcher's keys
    std::uint32_t place = kNone; ///< index of the socket or connection in its transport
    std::uint16_t wire_id = 0;   ///< id as sent; differs from the message's where rewritten
    std::uint8_t family = 0;     ///< 4 or 6
    bool in_flight = false;      ///< in the order of deadlines
    bool keyed = false;          ///< known to the Matcher
    bool written = false;        ///< handed to the kernel at least once
    bool flying = false;         ///< TCP: on its connection's list of written queries

    [[nodiscard]] Bytes bytes() const { return {message, record.query_size}; }
};

class Slots {
public:
    explicit Slots(size_t capacity) : capacity_(capacity) { slots_.reserve(capacity); }

    Slot& operator[](std::uint32_t index) { return slots_[index]; }

    const Slot& operator[](std::uint32_t index) const { return slots_[index]; }

    /// A slot for the query with its own copy of the message, or kNone when all are taken.
    std::uint32_t take(const Query& query);
    void give_back(std::uint32_t index);

    [[nodiscard]] size_t used() const { return slots_.size() - free_.size(); }

private:
    size_t capacity_;
    std::vector<Slot> slots_; ///< never reallocates; pages are touched as they are needed
    std::vector<std::uint32_t> free_;
    MessageStore messages_;
};

} // namespace reprise::querier
