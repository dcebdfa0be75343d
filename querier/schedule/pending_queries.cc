#include "querier/schedule/pending_queries.hh"

#include "core/base/bytes.hh"
#include "core/wire/query.hh"
#include "querier/schedule/matcher.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace reprise::querier {

std::uint32_t PendingQueries::fresh() {
    if (full()) {
        return kNone;
    }
    const std::uint32_t index = take_place(queries_, free_);
    std::destroy_at(&queries_[index]); // an assignment would make another one and copy it
    std::construct_at(&queries_[index]);
    return index;
}

std::uint32_t PendingQueries::take(const Query& query) {
    const std::uint32_t index = fresh();
    if (index == kNone) {
        return kNone;
    }
    PendingQuery& pending = queries_[index];
    pending.record.sequence = query.sequence;
    pending.record.trace_time = query.time;
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

std::uint32_t PendingQueries::copy(std::uint32_t index, std::uint8_t peer) {
    const std::uint32_t other = fresh();
    if (other == kNone) {
        return kNone;
    }
    const PendingQuery& pending = queries_[index];
    PendingQuery& twin = queries_[other];
    twin.record = pending.record;
    twin.source = pending.source;
    twin.transport = pending.transport;
    twin.idle_class = pending.idle_class;
    twin.record.send = twin.record.connect = 0;
    twin.record.marks = 0;
    twin.record.retries = 0;
    twin.peer = peer;
    twin.message = pending.message;
    twin.question = pending.question;
    twin.id = twin.wire_id = pending.id;
    keep(other);
    return other;
}

void PendingQueries::keep(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (pending.own) {
        return;
    }
    const size_t size = kept_size(pending);
    if (size == kSmall && !spare_.empty()) {
        pending.own = std::move(spare_.back());
        spare_.pop_back();
    } else {
        pending.own = std::make_unique_for_overwrite<std::uint8_t[]>(size);
    }
    copy_bytes(pending.bytes(), pending.own.get());
    pending.message = pending.own.get();
    kept_bytes_ += size;
}

void PendingQueries::let_go(std::uint32_t index) {
    queries_[index].message = queries_[index].own.get();
}

void PendingQueries::give_back(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (pending.own) {
        kept_bytes_ -= kept_size(pending);
        if (kept_size(pending) == kSmall) {
            spare_.push_back(std::move(pending.own));
        }
        pending.own.reset();
    }
    pending.message = nullptr;
    free_.push_back(index);
}

} // namespace reprise::querier
