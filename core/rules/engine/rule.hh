#pragma once
// What a rewriting rule is.
//
// Every rule sees all queries of the trace in order, batch after batch, one call at a time (from
// any thread), and what the rule before it left. So a rule may count, remember and draw random
// numbers, and the result does not depend on the number of threads.

#include "core/base/arena.hh"
#include "core/rules/engine/selector.hh"
#include "core/trace/batch.hh" // IWYU pragma: export

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::rules {

/// What a rule did, by name; printed at the end. Always there: "seen" (queries), "matched" (chosen
/// by filter and share) and "changed"; others as the rule has them ("dropped", "added",
/// "malformed").
using RuleCounts = std::map<std::string, std::uint64_t>;

/// Selector, counts and the loop over a batch. A rule says in change() what becomes of one query.
class Rule {
public:
    virtual ~Rule() = default;
    Rule(const Rule&) = delete;
    Rule& operator=(const Rule&) = delete;

    /// Whether survey() must see every query of the inputs, as read, before the first apply().
    [[nodiscard]] virtual bool surveys() const { return false; }

    virtual void survey(const Query& /*query*/) {}

    /// Whether queries wait in the rule for later ones, the last of them for finish().
    [[nodiscard]] virtual bool holds() const { return false; }

    /// Changes, drops, adds and reorders the batch's queries: as change() and leave() say of each.
    /// What is kept for later is copied: the batch's memory goes with it.
    virtual void apply(Batch& batch);

    /// apply() to one query, for rules that only choose: whether it stays.
    bool keeps(Query& query, Batch& batch) {
        return (takes(query) ? change(query, batch) : leave(query)) != Outcome::kDropped;
    }

    /// Whether apply() kept something back, as it would have been too much for one batch. It is
    /// then called with empty batches, which get the next pieces, before all else.
    [[nodiscard]] virtual bool has_more() const { return false; }

    /// After the last batch: appends what was kept back. Queries that this appends go through the
    /// rules behind it as any others.
    virtual void finish(Batch& /*batch*/) {}

    [[nodiscard]] RuleCounts counts() const;

    /// Begins with the counts of another rule of the kind.
    void count_on(const Rule& before);

protected:
    /// What became of a query.
    enum class Outcome : std::uint8_t {
        kSame,
        kChanged, ///< counted where it is a query
        kDropped, ///< leaves the batch; the rule counts it
    };

    explicit Rule(Selector selector = {}) : selector_(std::move(selector)) {}

    /// Changes a query that the selector took; may allocate in the batch.
    virtual Outcome change(Query& /*query*/, Batch& /*batch*/) { return Outcome::kSame; }

    /// Changes one that it did not take.
    virtual Outcome leave(Query& /*query*/) { return Outcome::kSame; }

    /// Sets a part of a query.
    template <typename T> static Outcome set(T& part, const T& value) {
        return std::exchange(part, value) != value ? Outcome::kChanged : Outcome::kSame;
    }

    [[nodiscard]] const Selector& selector() const { return selector_; }

    /// Whether the selector takes the query; counts it. For rules with an apply() of their own.
    bool takes(const Query& query) {
        const bool taken = selector_.takes(query);
        if (!query.is_close()) {
            ++seen_;
            matched_ += taken ? 1U : 0U;
        }
        return taken;
    }

    /// Where in the batch the query at work will be: queries before it that stay.
    [[nodiscard]] size_t place() const { return place_; }

    /// The count of that name, which is always told.
    std::uint64_t& count(const std::string& name);

    /// The same, told where it is not 0.
    std::uint64_t& rare_count(const std::string& name) { return counts_[name].value; }

private:
    struct Count {
        std::uint64_t value = 0;
        bool always = false;
    };

    Selector selector_;
    std::map<std::string, Count> counts_;
    std::uint64_t& seen_ = count("seen");
    std::uint64_t& matched_ = count("matched");
    std::uint64_t& changed_ = count("changed");
    size_t place_ = 0;
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

protected:
    using Rule::Rule;

    /// Emits what becomes of the query by put() and pass(), each behind a look at full(). False
    /// where the piece was full before all was done: it is called again for the same query.
    virtual bool work(Query& query, Batch& batch) = 0;

    [[nodiscard]] bool full(const Batch& batch) const {
        return batch.queries.size() >= kItems || bytes_ >= kBytes;
    }

    /// A new query, whose message is in the batch's memory.
    void put(const Query& query, Batch& batch);

    /// A query of the input.
    void pass(Query query, Batch& batch);

private:
    std::vector<Query> incoming_; ///< a batch's queries while it is filled anew
    size_t at_ = 0;               ///< the query at work
    std::optional<Arena> held_;   ///< their messages, once the batch went on without them
    size_t bytes_ = 0;            ///< of messages in the present piece
};

} // namespace reprise::rules
