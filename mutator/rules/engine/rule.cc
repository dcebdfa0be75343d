#include "mutator/rules/engine/rule.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace reprise::mutator {

void Rule::apply(Batch& batch) {
    const size_t items = batch.items.size();
    std::uint64_t changed = 0;
    place_ = 0;
    for (size_t i = 0; i < items; ++i) {
        Item& item = batch.items[i];
        const Outcome outcome = takes(item) ? change(item, batch) : leave(item);
        if (outcome == Outcome::kDropped) {
            continue;
        }
        changed += outcome == Outcome::kChanged && !item.is_close() ? 1U : 0U;
        if (place_ != i) {
            batch.items[place_] = item;
        }
        ++place_;
    }
    batch.items.resize(place_);
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

void PiecewiseRule::apply(Batch& batch) {
    incoming_.swap(batch.items);
    fill(batch);
    if (has_more()) {
        hold();
    }
}

void PiecewiseRule::apply_more(Batch& batch) { fill(batch); }

void PiecewiseRule::fill(Batch& batch) {
    bytes_ = 0;
    while (at_ < incoming_.size() && work(incoming_[at_], batch)) {
        ++at_;
    }
    if (at_ == incoming_.size()) {
        incoming_.clear();
        at_ = 0;
        holds_ = false;
    }
}

// The batch goes on with the piece, and its messages may be edited there.
void PiecewiseRule::hold() {
    if (!held_) {
        held_ = std::make_unique<Batch>();
    }
    held_->clear();
    for (size_t i = at_; i < incoming_.size(); ++i) {
        incoming_[i].message = held_->copy(incoming_[i].message);
    }
    holds_ = true;
}

void PiecewiseRule::put(const Item& item, Batch& batch) {
    batch.items.push_back(item);
    bytes_ += item.message.size();
}

void PiecewiseRule::pass(Item item, Batch& batch) {
    if (holds_) {
        item.message = batch.copy(item.message);
    }
    put(item, batch);
}

} // namespace reprise::mutator
