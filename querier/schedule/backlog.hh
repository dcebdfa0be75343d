#pragma once
// Queries that wait for their time. The blocks stay as they came and the schedule points into them:
// a waiting query costs its bytes and 24 more, and is copied nowhere until it is sent.
//
// Bytes are those of blocks until these are used up, so they bound the memory whatever the order of
// the queries.
//
// A block is taken in a few records at a time, so that its 256 records delay no query that is due.

#include "core/wire/record.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace reprise::querier {

// When to send what.
//
// Problem: hundreds of thousands of queries wait for their time. One timer event per query costs
// more than the query, and a heap or tree costs a logarithm and cache misses on every query
// although traces come almost sorted.
//
// Idea: a trace is written in the order of time but for small disorder (several capture
// threads, reassembled fragments). A query that is not earlier than the newest one in the queue
// goes to the end of a queue; only the others go to a heap. The next query is the earlier of
// its front and the heap's top. A sorted trace costs one comparison and one write a query; k
// stragglers cost k log k; nothing is ever moved or searched, so no order of arrival is
// quadratic.
//
// Who wakes: nobody here. The process sleeps until the front is due (see waiter.hh) and then sends
// everything that is due. Equal times leave in the order of arrival, so that the queries of one
// source keep their order.

class Schedule {
public:
    struct Item {
        Nanoseconds time = 0; ///< due offset; the same clock for all items
        std::uint64_t arrival = 0;
        std::uint64_t what = 0; ///< the caller's name for it
    };

    void push(Nanoseconds time, std::uint64_t what);

    [[nodiscard]] bool empty() const { return sorted_.empty() && heap_.empty(); }

    /// The earliest item. Must not be empty.
    [[nodiscard]] const Item& front() const;
    void pop();

private:
    struct Later {
        bool operator()(const Item& a, const Item& b) const {
            return a.time != b.time ? a.time > b.time : a.arrival > b.arrival;
        }
    };

    [[nodiscard]] bool heap_first() const;

    std::deque<Item> sorted_;
    std::priority_queue<Item, std::vector<Item>, Later> heap_;
    std::uint64_t arrivals_ = 0;
};

class Backlog {
public:
    /// `limit`: the most that waits, bytes being those of whole blocks.
    explicit Backlog(const Credit& limit) : limit_(limit) {}

    /// The next block; the one before must be used up.
    void begin(std::string records);

    /// A block is not used up yet.
    [[nodiscard]] bool busy() const { return taking_ != kNoBlock; }

    /// Takes in some records. What is wrong with the block, or empty.
    std::string step();

    /// Nothing waits.
    [[nodiscard]] bool empty() const { return schedule_.empty(); }

    /// Queries taken in so far.
    [[nodiscard]] std::uint64_t received() const { return received_; }

    /// The due offset of the next query. Must not be empty.
    [[nodiscard]] Nanoseconds due() const { return schedule_.front().time; }

    /// The next query; it borrows until sweep().
    [[nodiscard]] Query front() const;
    void pop();

    /// Frees the blocks that are used up.
    void sweep();

    /// Bytes of the blocks freed since the last call.
    std::uint64_t take_freed() { return std::exchange(freed_, 0); }

private:
    static constexpr std::uint32_t kNoBlock = 0xffffffff;

    struct Block {
        std::string records;
        size_t waiting = 0;
    };

    [[nodiscard]] Bytes bytes(std::uint32_t block) const;

    Credit limit_;
    Credit held_; ///< records that wait, bytes of all blocks
    std::uint64_t freed_ = 0;
    std::uint64_t received_ = 0;
    std::vector<Block> blocks_;
    std::vector<std::uint32_t> free_;
    std::vector<std::uint32_t> used_up_;
    Schedule schedule_;
    RecordReader reader_{Bytes{}};
    std::uint32_t taking_ = kNoBlock; ///< the block being taken in
};

} // namespace reprise::querier
