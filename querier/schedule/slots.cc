#include "querier/schedule/slots.hh"

#include "core/wire/query.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/question.hh"

#include <cstdint>

namespace reprise::querier {

std::uint32_t Slots::fresh() {
    std::uint32_t index = kNone;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
        slots_[index] = {};
    } else if (slots_.size() < capacity_) {
        index = static_cast<std::uint32_t>(slots_.size());
        slots_.emplace_back();
    }
    return index;
}

std::uint32_t Slots::take(const Query& query) {
    const std::uint32_t index = fresh();
    if (index == kNone) {
        return kNone;
    }
    Slot& slot = slots_[index];
    slot.record.sequence = query.sequence;
    slot.record.trace_time = query.trace_time;
    slot.record.source = query.source_id;
    slot.record.transport = slot.carrier = query.transport;
    slot.traced = query.connection;
    slot.idle_class = query.idle_class;
    slot.record.query_size = static_cast<std::uint16_t>(query.message.size());
    slot.source = query.source;
    slot.message = query.message.data();
    slot.question = question_hash(query.message);
    slot.id = slot.wire_id = message_id(query.message);
    return index;
}

std::uint32_t Slots::copy(std::uint32_t index) {
    const std::uint32_t other = fresh();
    if (other == kNone) {
        return kNone;
    }
    const Slot& slot = slots_[index];
    Slot& twin = slots_[other];
    twin.record = slot.record;
    twin.source = slot.source;
    twin.carrier = slot.carrier;
    twin.message = slot.message;
    twin.question = slot.question;
    twin.id = twin.wire_id = slot.id;
    keep(other);
    return other;
}

void Slots::keep(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (!slot.kept) {
        slot.message = messages_.keep(slot.bytes());
        slot.kept = true;
    }
}

void Slots::let_go(std::uint32_t index) {
    if (!slots_[index].kept) {
        slots_[index].message = nullptr;
    }
}

void Slots::give_back(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.kept) {
        messages_.forget(slot.message, slot.record.query_size);
        slot.kept = false;
    }
    slot.message = nullptr;
    free_.push_back(index);
}

} // namespace reprise::querier
