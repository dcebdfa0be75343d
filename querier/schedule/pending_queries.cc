#include "querier/schedule/pending_queries.hh"

#include "core/wire/query.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/matcher.hh"

#include <cstdint>

namespace reprise::querier {

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
    pending.record.transport = pending.carrier = query.transport;
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
    twin.carrier = pending.carrier;
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
