#include "mutator/rules/time/reorder.hh"

#include "core/base/clock.hh"
#include "mutator/rules/engine/batch.hh"

#include <algorithm>
#include <cstdint>

namespace reprise::mutator {

bool Reorder::is_later(const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
}

std::uint32_t Reorder::free_slot() {
    if (free_.empty()) {
        slots_.emplace_back();
        return static_cast<std::uint32_t>(slots_.size() - 1);
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
}

void Reorder::put(const Item& item, Nanoseconds time) {
    const std::uint32_t number = free_slot();
    Slot& slot = slots_[number];
    slot.bytes.assign(item.message.begin(), item.message.end());
    slot.item = item;
    slot.item.time = time;
    slot.item.message = slot.bytes;
    heap_.push_back({time, order_++, number});
    std::ranges::push_heap(heap_, is_later);
}

void Reorder::release(Nanoseconds until, Batch& batch) {
    while (!heap_.empty() && heap_.front().time <= until) {
        std::ranges::pop_heap(heap_, is_later);
        const std::uint32_t slot = heap_.back().slot;
        heap_.pop_back();
        batch.items.push_back(slots_[slot].item);
        batch.items.back().message = batch.copy(slots_[slot].bytes);
        free_.push_back(slot);
    }
}

} // namespace reprise::mutator
