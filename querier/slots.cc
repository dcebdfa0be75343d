#include "querier/slots.hh"

#include "core/query.hh"
#include "querier/links.hh"
#include "querier/question.hh"

#include <cstdint>

namespace reprise::querier {

std::uint32_t Slots::take(const Query& query) {
    std::uint32_t index = kNone;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
    } else if (slots_.size() < capacity_) {
        index = static_cast<std::uint32_t>(slots_.size());
        slots_.emplace_back();
    } else {
        return kNone;
    }
    Slot& slot = slots_[index];
    slot = {};
    slot.record.sequence = query.sequence;
    slot.record.trace_time = query.trace_time;
    slot.record.source = query.source_id;
    slot.record.transport = query.transport;
    slot.record.query_size = static_cast<std::uint16_t>(query.message.size());
    slot.message = messages_.keep(query.message);
    slot.question = question_hash(query.message);
    slot.wire_id = message_id(query.message);
    slot.family = query.source.address.family;
    return index;
}

void Slots::give_back(std::uint32_t index) {
    Slot& slot = slots_[index];
    messages_.forget(slot.message, slot.record.query_size);
    slot.message = nullptr;
    free_.push_back(index);
}

} // namespace reprise::querier
