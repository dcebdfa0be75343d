#include "querier/stream/connection_queue.hh"

#include "core/wire/result_file.hh"
#include "querier/schedule/slots.hh"

#include <cstdint>
#include <vector>

namespace reprise::querier {

void ConnectionQueue::enqueue(Slots& slots, std::uint32_t slot) {
    slots[slot].flying = false;
    waiting_.push_back(slots, slot);
}

void ConnectionQueue::started(Slots& slots, std::uint32_t slot) {
    waiting_.remove(slots, slot);
    flying_.push_back(slots, slot);
    slots[slot].flying = true;
}

void ConnectionQueue::start_all(Slots& slots) {
    while (!waiting_.empty()) {
        started(slots, waiting_.front());
    }
}

std::vector<std::uint32_t> ConnectionQueue::take_back(Slots& slots) {
    std::vector<std::uint32_t> written;
    std::vector<std::uint32_t> order;
    for (; !flying_.empty(); flying_.remove(slots, flying_.front())) {
        written.push_back(flying_.front());
        slots[flying_.front()].flying = false;
    }
    order = written;
    for (; !waiting_.empty(); waiting_.remove(slots, waiting_.front())) {
        order.push_back(waiting_.front());
    }
    for (const std::uint32_t slot : order) {
        waiting_.push_back(slots, slot);
    }
    return written;
}

void ConnectionQueue::remove(Slots& slots, std::uint32_t slot) {
    (slots[slot].flying ? flying_ : waiting_).remove(slots, slot);
}

void ConnectionQueue::lose_written(Slots& slots, std::uint32_t index, Loss& loss) {
    Slot& slot = slots[index];
    if (slot.record.retries > 0) {
        loss.failed.push_back(index);
        return;
    }
    ++slot.record.retries;
    slot.record.marks |= kMarkRetried;
    loss.retry.push_back(index);
}

ConnectionQueue::Loss ConnectionQueue::lose(Slots& slots, bool established) {
    Loss loss;
    while (!flying_.empty()) {
        const std::uint32_t slot = flying_.front();
        flying_.remove(slots, slot);
        if (established) {
            lose_written(slots, slot, loss);
        } else {
            loss.failed.push_back(slot); // early data
        }
    }
    while (!waiting_.empty()) {
        const std::uint32_t slot = waiting_.front();
        waiting_.remove(slots, slot);
        (established ? loss.retry : loss.failed).push_back(slot);
    }
    return loss;
}

} // namespace reprise::querier
