#pragma once
// Rules applied to a trace as it is read, by the one thread that reads it. What comes out is what
// the mutator's pipeline makes with the same rules.

#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/batch.hh"
#include "core/trace/feed.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

namespace reprise::rules {

class Chain {
public:
    /// Throws RuleError as make_rules() does, and for a rule that must see more of the trace than
    /// what was read so far.
    explicit Chain(RuleSet set);

    [[nodiscard]] bool empty() const { return rules_.empty(); }

    /// As feed.read(), and the rules applied. Responses are not shown to rules.
    bool read(trace::Feed& feed, Batch& batch);

    /// The feed begins again, and so do the rules; their counts go on.
    void restart();

    [[nodiscard]] std::vector<RuleCounts> counts() const;

private:
    std::optional<size_t> read_next(trace::Feed& feed, Batch& batch);

    RuleSet set_;
    std::vector<std::unique_ptr<Rule>> rules_;
    std::vector<Query> responses_; ///< of the batch at work
};

/// What each rule of a set did, one object a rule.
nlohmann::ordered_json counts_json(const RuleSet& set, const std::vector<RuleCounts>& counts);

} // namespace reprise::rules
