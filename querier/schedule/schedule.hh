#pragma once
// When to send what.
//
// Problem: hundreds of thousands of queries wait for their time. One timer event per query costs
// more than the query, and a heap or tree costs a logarithm and cache misses on every query
// although traces come almost sorted.
//
// Idea: a trace is written in the order of time but for small disorder (several capture threads,
// reassembled fragments). A query that is not earlier than the newest one in the queue goes to the
// end of a ring; only the others go to a heap. The next query is the earlier of the ring's front
// and the heap's top. A sorted trace costs one comparison and one write a query; k stragglers cost
// k log k; nothing is ever moved or searched, so no order of arrival is quadratic.
//
// Who wakes: nobody here. The process sleeps until the front is due (see waiter.hh) and then sends
// everything that is due. Equal times leave in the order of arrival, so that the queries of one
// source keep their order.

#include "core/base/clock.hh"

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace reprise::querier {

class Schedule {
public:
    struct Item {
        Nanoseconds time = 0; ///< due offset; the same clock for all items
        std::uint64_t arrival = 0;
        std::uint64_t what = 0; ///< the caller's name for it
    };

    Schedule();

    void push(Nanoseconds time, std::uint64_t what);

    [[nodiscard]] bool empty() const { return count_ == 0 && heap_.empty(); }

    [[nodiscard]] size_t size() const { return count_ + heap_.size(); }

    /// The earliest item. Must not be empty.
    [[nodiscard]] const Item& front() const;
    void pop();

    /// Items that came out of order so far.
    [[nodiscard]] std::uint64_t stragglers() const { return stragglers_; }

private:
    struct Later {
        bool operator()(const Item& a, const Item& b) const {
            return a.time != b.time ? a.time > b.time : a.arrival > b.arrival;
        }
    };

    [[nodiscard]] bool heap_first() const;
    void grow();

    std::vector<Item> ring_; ///< power of two; items [first_, first_ + count_) modulo its size
    size_t first_ = 0;
    size_t count_ = 0;
    std::priority_queue<Item, std::vector<Item>, Later> heap_;
    std::uint64_t arrivals_ = 0;
    std::uint64_t stragglers_ = 0;
};

} // namespace reprise::querier
