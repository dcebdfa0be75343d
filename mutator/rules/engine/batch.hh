#pragma once
// A run of queries on their way through the mutator. Stages take whole batches, so what a stage
// costs to call is paid once for some thousand queries.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

namespace reprise::mutator {

/// A query that rules may change. Its message is in the batch's memory.
struct Item {
    Nanoseconds time = 0; ///< since the epoch
    Endpoint source;
    Endpoint destination;
    std::uint64_t connection = 0; ///< of the trace, from 1; 0 = none
    Transport transport = Transport::kUdp;
    std::uint16_t rtt_class = 0;  ///< as Query's
    std::uint16_t idle_class = 0; ///< as Query's
    std::span<std::uint8_t> message;

    /// Not a query: the client closed its TCP connection (Query::is_close()).
    [[nodiscard]] bool is_close() const { return message.empty(); }
};

class Batch {
public:
    /// Queries of a full batch; rules that add some may exceed it.
    static constexpr size_t kQueries = 4096;

    Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    std::vector<Item> items;

    /// Memory for a message, good as long as the batch. Not zeroed.
    std::span<std::uint8_t> allocate(size_t size);

    /// The same with a copy of `bytes` in it.
    std::span<std::uint8_t> copy(Bytes bytes);

    /// Empty again; memory is kept for the next use.
    void clear();

private:
    std::vector<std::uint8_t> first_; ///< the arena's beginning, kept by clear()
    std::pmr::monotonic_buffer_resource arena_;
};

/// The item as a query to be written; borrows from the batch. `sequence` counts queries.
Query query_of(const Item& item, std::uint64_t sequence);

} // namespace reprise::mutator
