#include "core/rules/engine/rule.hh"

#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::rules {
namespace {

constexpr size_t kFirstHeld = 256UL << 10U; ///< usual messages of a batch, about once

} // namespace

void Rule::apply(Batch& batch) {
    const size_t queries = batch.queries.size();
    std::uint64_t changed = 0;
    place_ = 0;
    for (size_t i = 0; i < queries; ++i) {
        Query& query = batch.queries[i];
        const Outcome outcome = takes(query) ? change(query, batch) : leave(query);
        if (outcome == Outcome::kDropped) {
            continue;
        }
        changed += outcome == Outcome::kChanged && !query.is_close() ? 1U : 0U;
        if (place_ != i) {
            batch.queries[place_] = query;
        }
        ++place_;
    }
    batch.queries.resize(place_);
    changed_ += changed;
}

std::uint64_t& Rule::count(const std::string& name) {
    Count& count = counts_[name];
    count.always = true;
    return count.value;
}

RuleCounts Rule::counts() const {
    RuleCounts told;
    for (const auto& [name, count] : counts_) {
        if (count.always || count.value != 0) {
            told.emplace(name, count.value);
        }
    }
    return told;
}

void Rule::count_on(const Rule& before) {
    for (const auto& [name, count] : before.counts_) {
        counts_[name].value = count.value;
    }
}

void PiecewiseRule::apply(Batch& batch) {
    const bool fresh = !has_more();
    if (fresh) {
        incoming_.swap(batch.queries);
    }
    bytes_ = 0;
    while (at_ < incoming_.size() && work(incoming_[at_], batch)) {
        ++at_;
    }
    if (at_ == incoming_.size()) {
        incoming_.clear();
        at_ = 0;
        held_.reset();
    } else if (fresh) { // the batch goes on with the piece, and its messages may be edited there
        held_.emplace(kFirstHeld);
        for (size_t i = at_; i < incoming_.size(); ++i) {
            incoming_[i].message = held_->copy(incoming_[i].message);
        }
    }
}

void PiecewiseRule::put(const Query& query, Batch& batch) {
    batch.queries.push_back(query);
    bytes_ += query.message.size();
}

void PiecewiseRule::pass(Query query, Batch& batch) {
    if (held_) {
        query.message = batch.copy(query.message);
    }
    put(query, batch);
}

} // namespace reprise::rules
