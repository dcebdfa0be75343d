#pragma once
// What a rewriting rule is.
//
// Every rule sees all queries of the trace in order, batch after batch, one call at a time (from
// any thread), and what the rule before it left. So a rule may count, remember and draw random
// numbers, and the result does not depend on the number of threads.

#include "mutator/rules/engine/batch.hh"

#include <cstdint>
#include <map>
#include <string>

namespace reprise::mutator {

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

} // namespace reprise::mutator
