#include "mutator/rules/engine/rule.hh"

#include "core/base/bytes.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace reprise::mutator {

namespace {

/// Enough for the usual messages of a full batch, twice.
constexpr size_t kFirstBytes = 1UL << 20U;

} // namespace

Batch::Batch() : first_(kFirstBytes), arena_(first_.data(), first_.size()) {
    items.reserve(kQueries);
}

std::span<std::uint8_t> Batch::allocate(size_t size) {
    return {static_cast<std::uint8_t*>(arena_.allocate(size, 1)), size};
}

std::span<std::uint8_t> Batch::copy(Bytes bytes) {
    const std::span<std::uint8_t> out = allocate(bytes.size());
    std::ranges::copy(bytes, out.begin());
    return out;
}

void Batch::clear() {
    items.clear();
    arena_.release();
}

Query query_of(const Item& item, std::uint64_t sequence) {
    return {.sequence = sequence,
            .trace_time = item.time,
            .due = 0,
            .source = item.source,
            .destination = item.destination,
            .source_id = 0,
            .connection = item.connection,
            .transport = item.transport,
            .rtt_class = item.rtt_class,
            .idle_class = item.idle_class,
            .message = item.message};
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
