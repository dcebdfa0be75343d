#include "core/rules/engine/chain.hh"

#include "core/base/json.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/batch.hh"
#include "core/trace/feed.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::rules {

Chain::Chain(RuleSet set) : set_(std::move(set)), rules_(make_rules(set_)) {
    for (size_t i = 0; i < rules_.size(); ++i) {
        if (rules_[i]->surveys() || rules_[i]->holds()) {
            set_.rules[i].fail({}, fmt::format("{}; change the trace before it is played, with "
                                               "reprise mutate",
                                               rules_[i]->surveys()
                                                   ? "reads the trace twice"
                                                   : "holds back a part of the trace"));
        }
    }
}

/// Replaces what is in the batch by queries that the rules from the one returned on have not seen,
/// or by none where that has more; nothing at the end.
std::optional<size_t> Chain::read_next(trace::Feed& feed, Batch& batch) {
    for (size_t last = rules_.size(); last-- > 0;) {
        if (rules_[last]->has_more()) {
            batch.clear();
            return last;
        }
    }
    return feed.read(batch) ? std::optional<size_t>(0) : std::nullopt;
}

bool Chain::read(trace::Feed& feed, Batch& batch) {
    while (const auto first = read_next(feed, batch)) {
        if (rules_.empty()) {
            return true;
        }
        std::vector<Query>& queries = batch.queries;
        responses_.clear();
        std::ranges::copy_if(queries, std::back_inserter(responses_), &Query::is_response);
        std::erase_if(queries, [](const Query& query) { return query.is_response(); });
        for (size_t i = *first; i < rules_.size(); ++i) {
            rules_[i]->apply(batch);
        }
        queries.insert(queries.end(), responses_.begin(), responses_.end());
        if (!queries.empty()) {
            return true;
        }
    }
    return false;
}

void Chain::restart() {
    set_.settings.again = true;
    auto fresh = make_rules(set_);
    for (size_t i = 0; i < rules_.size(); ++i) {
        fresh[i]->count_on(*rules_[i]);
    }
    rules_ = std::move(fresh);
}

std::vector<RuleCounts> Chain::counts() const {
    std::vector<RuleCounts> all;
    all.reserve(rules_.size());
    for (const auto& rule : rules_) {
        all.push_back(rule->counts());
    }
    return all;
}

Json counts_json(const RuleSet& set, const std::vector<RuleCounts>& counts) {
    Json out = Json::array();
    for (size_t i = 0; i < counts.size(); ++i) {
        Json& row = out.emplace_back(
            Json{{"kind", set.rules.at(i).kind()}, {"place", set.rules.at(i).place()}});
        for (const auto& [name, count] : counts[i]) {
            row[name] = count;
        }
    }
    return out;
}

} // namespace reprise::rules
