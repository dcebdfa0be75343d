#pragma once
// What a rewriting rule is.
//
// Every rule sees all queries of the trace in order, batch after batch, one call at a time (from
// any thread), and what the rule before it left. So a rule may count, remember and draw random
// numbers, and the result does not depend on the number of threads.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

namespace reprise::mutator {

// A run of queries on their way through the mutator. Stages take whole batches, so what a stage
// costs to call is paid once for some thousand queries.

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

/// What a rule did, by name; printed at the end. Always there: "seen" (queries), "matched" (chosen
/// by filter and share) and "changed"; others as the rule has them ("dropped", "added",
/// "malformed").
using RuleCounts = std::map<std::string, std::uint64_t>;

class Rule {
public:
    Rule() = default;
    virtual ~Rule() = default;
    Rule(const Rule&) = delete;
    Rule& operator=(const Rule&) = delete;

    /// Whether survey() must see every query of the inputs, as read, before the first apply().
    [[nodiscard]] virtual bool surveys() const { return false; }

    virtual void survey(const Item& /*item*/) {}

    /// Changes, drops, adds and reorders the batch's items. What is kept for later is copied: the
    /// batch's memory goes with it.
    virtual void apply(Batch& batch) = 0;

    /// Whether apply() and apply_more() kept something back, as it would have been too much for one
    /// batch. apply_more() is then called, with empty batches, before all else.
    [[nodiscard]] virtual bool has_more() const { return false; }

    /// Appends the next piece.
    virtual void apply_more(Batch& /*batch*/) {}

    /// After the last batch, with an empty one: appends what was kept back. Queries that this
    /// appends go through the rules behind it as any others.
    virtual void finish(Batch& /*batch*/) {}

    [[nodiscard]] virtual RuleCounts counts() const = 0;
};

// Rules that make many queries out of one: what they emit comes in pieces of bounded size, so that
// memory does not grow with what the user asks for.

/// Memory: a piece on its way, and a copy of the input that was not worked on when it was full.
class PiecewiseRule : public Rule {
public:
    static constexpr size_t kItems = 16'384;      ///< of a full piece
    static constexpr size_t kBytes = 16UL << 20U; ///< of messages in it

    void apply(Batch& batch) final;

    [[nodiscard]] bool has_more() const final { return at_ < incoming_.size(); }

    void apply_more(Batch& batch) final;

protected:
    /// Emits what becomes of the item by put() and pass(), each behind a look at full(). False
    /// where the piece was full before all was done: it is called again for the same item.
    virtual bool work(Item& item, Batch& batch) = 0;

    [[nodiscard]] bool full(const Batch& batch) const {
        return batch.items.size() >= kItems || bytes_ >= kBytes;
    }

    /// A new item, whose message is in the batch's memory.
    void put(const Item& item, Batch& batch);

    /// An item of the input.
    void pass(Item item, Batch& batch);

private:
    void fill(Batch& batch);
    void hold();

    std::vector<Item> incoming_; ///< a batch's items while it is filled anew
    size_t at_ = 0;              ///< the item at work
    std::unique_ptr<Batch>
        held_; ///< messages of `incoming_`, once their batch went on without them
    bool holds_ = false;
    size_t bytes_ = 0; ///< of messages in the present piece
};

} // namespace reprise::mutator
