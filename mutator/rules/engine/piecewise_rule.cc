#include "mutator/rules/engine/piecewise_rule.hh"

#include "mutator/rules/engine/batch.hh"

#include <cstddef>
#include <memory>

namespace reprise::mutator {

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
