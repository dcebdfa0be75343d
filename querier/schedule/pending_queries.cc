#include "querier/schedule/pending_queries.hh"

#include "core/base/bytes.hh"
#include "core/wire/query.hh"
#include "querier/schedule/matcher.hh"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace reprise::querier {

size_t MessageStore::class_of(size_t size) {
    const size_t piece = std::bit_ceil(std::max(size, kSmallest));
    return static_cast<size_t>(std::countr_zero(piece / kSmallest));
}

size_t MessageStore::piece_of(size_t size) {
    return size > kLargest ? size : kSmallest << class_of(size);
}

void MessageStore::refill(size_t size_class) {
    const size_t piece = kSmallest << size_class;
    // Not value-initialised: a chunk's pages are touched only when messages are put there.
    chunks_.push_back(std::make_unique_for_overwrite<std::uint8_t[]>(kChunk));
    for (size_t at = kChunk; at >= piece; at -= piece) {
        free_[size_class].push_back(chunks_.back().get() + (at - piece));
    }
}

const std::uint8_t* MessageStore::keep(Bytes message) {
    used_ += piece_of(message.size());
    if (message.size() > kLargest) {
        auto own = std::make_unique_for_overwrite<std::uint8_t[]>(message.size());
        std::ranges::copy(message, own.get());
        return own.release();
    }
    const size_t size_class = class_of(message.size());
    if (free_[size_class].empty()) {
        refill(size_class);
    }
    std::uint8_t* const piece = free_[size_class].back();
    free_[size_class].pop_back();
    std::ranges::copy(message, piece);
    return piece;
}

void MessageStore::forget(const std::uint8_t* message, size_t size) {
    used_ -= piece_of(size);
    auto* const ours = const_cast<std::uint8_t*>(message);
    if (size > kLargest) {
        const std::unique_ptr<std::uint8_t[]> done(ours);
    } else {
        free_[class_of(size)].push_back(ours);
    }
}

std::uint32_t PendingQueries::fresh() {
    std::uint32_t index = kNone;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
        queries_[index] = {};
    } else if (queries_.size() < capacity_) {
        index = static_cast<std::uint32_t>(queries_.size());
        queries_.emplace_back();
    }
    return index;
}

std::uint32_t PendingQueries::take(const Query& query) {
    const std::uint32_t index = fresh();
    if (index == kNone) {
        return kNone;
    }
    PendingQuery& pending = queries_[index];
    pending.record.sequence = query.sequence;
    pending.record.trace_time = query.trace_time;
    pending.record.source = query.source_id;
    pending.record.transport = pending.transport = query.transport;
    pending.traced = query.connection;
    pending.idle_class = query.idle_class;
    pending.record.query_size = static_cast<std::uint16_t>(query.message.size());
    pending.source = query.source;
    pending.message = query.message.data();
    pending.question = question_hash(query.message);
    pending.id = pending.wire_id = message_id(query.message);
    return index;
}

std::uint32_t PendingQueries::copy(std::uint32_t index) {
    const std::uint32_t other = fresh();
    if (other == kNone) {
        return kNone;
    }
    const PendingQuery& pending = queries_[index];
    PendingQuery& twin = queries_[other];
    twin.record = pending.record;
    twin.source = pending.source;
    twin.transport = pending.transport;
    twin.copy = true;
    twin.message = pending.message;
    twin.question = pending.question;
    twin.id = twin.wire_id = pending.id;
    keep(other);
    return other;
}

void PendingQueries::keep(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (!pending.kept) {
        pending.message = messages_.keep(pending.bytes());
        pending.kept = true;
    }
}

void PendingQueries::let_go(std::uint32_t index) {
    if (!queries_[index].kept) {
        queries_[index].message = nullptr;
    }
}

void PendingQueries::give_back(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (pending.kept) {
        messages_.forget(pending.message, pending.record.query_size);
        pending.kept = false;
    }
    pending.message = nullptr;
    free_.push_back(index);
}

} // namespace reprise::querier
