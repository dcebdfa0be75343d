#include "proxy/delay_line.hh"

#include "core/bytes.hh"
#include "core/clock.hh"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace reprise::proxy {

bool DelayLine::push(Nanoseconds due, Bytes packet) {
    const size_t wanted = std::bit_ceil(std::max(packet.size(), kSizes.front()));
    if (wanted > kSizes.back() || heap_.size() >= limits_.packets ||
        bytes_ + wanted > limits_.bytes) {
        ++overflow_;
        return false;
    }
    const auto size_class =
        static_cast<std::uint32_t>(std::countr_zero(wanted) - std::countr_zero(kSizes.front()));
    std::uint8_t* buffer = take_buffer(size_class);
    std::ranges::copy(packet, buffer);
    bytes_ += wanted;
    heap_.push_back({.due = due,
                     .order = arrivals_++,
                     .buffer = buffer,
                     .length = static_cast<std::uint32_t>(packet.size()),
                     .size_class = size_class});
    std::ranges::push_heap(heap_, later);
    return true;
}

void DelayLine::remove_front() {
    std::ranges::pop_heap(heap_, later);
    heap_.pop_back();
}

std::uint8_t* DelayLine::take_buffer(std::uint32_t size_class) {
    auto& free = free_.at(size_class);
    if (free.empty()) {
        made_.push_back(std::make_unique<std::uint8_t[]>(kSizes.at(size_class)));
        return made_.back().get();
    }
    std::uint8_t* buffer = free.back();
    free.pop_back();
    return buffer;
}

void DelayLine::give_back(const Entry& entry) {
    bytes_ -= kSizes.at(entry.size_class);
    free_.at(entry.size_class).push_back(entry.buffer);
}

} // namespace reprise::proxy
