#include "proxy/delay/delay_line.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace reprise::proxy {

void DelayError::add(Nanoseconds error) {
    const Nanoseconds value = std::abs(error);
    ++buckets_.at(bucket_of(static_cast<std::uint64_t>(value)));
    ++packets_;
    max_ = std::max(max_, value);
}

Nanoseconds DelayError::quantile(double share) const {
    const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(packets_)));
    std::uint64_t seen = 0;
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        seen += buckets_.at(bucket);
        if (seen >= std::max<std::uint64_t>(rank, 1)) {
            return std::min(static_cast<Nanoseconds>(upper_end(bucket)), max_);
        }
    }
    return 0;
}

size_t DelayError::bucket_of(std::uint64_t value) {
    if (value < std::uint64_t{2} * kSteps) {
        return value;
    }
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 6;
    return size_t{kSteps} * shift + (value >> shift);
}

std::uint64_t DelayError::upper_end(size_t bucket) {
    if (bucket < size_t{2} * kSteps) {
        return bucket;
    }
    const size_t shift = bucket / kSteps - 1;
    return ((bucket - kSteps * shift + 1) << shift) - 1;
}

bool DelayLine::push(Nanoseconds due, Bytes packet) {
    const size_t wanted = std::bit_ceil(std::max(packet.size(), kSizes.front()));
    const auto size_class =
        static_cast<std::uint32_t>(std::countr_zero(wanted) - std::countr_zero(kSizes.front()));
    Buffer buffer = size_class < kSizes.size() && heap_.size() < limits_.packets
                        ? take_buffer(size_class)
                        : nullptr;
    if (buffer == nullptr) {
        ++overflow_;
        return false;
    }
    std::ranges::copy(packet, buffer.get());
    heap_.push_back({.due = due,
                     .order = arrivals_++,
                     .buffer = std::move(buffer),
                     .length = static_cast<std::uint32_t>(packet.size()),
                     .size_class = size_class});
    std::ranges::push_heap(heap_, later);
    return true;
}

DelayLine::Entry DelayLine::remove_front() {
    std::ranges::pop_heap(heap_, later);
    Entry front = std::move(heap_.back());
    heap_.pop_back();
    return front;
}

/// None where all memory is in use.
DelayLine::Buffer DelayLine::take_buffer(size_t size_class) {
    auto& free = free_.at(size_class);
    const size_t size = kSizes.at(size_class);
    if (!free.empty()) {
        Buffer buffer = std::move(free.back());
        free.pop_back();
        return buffer;
    }
    if (bytes_ + size > limits_.bytes) {
        free_idle(); // of other sizes: what passes has changed
    }
    if (bytes_ + size > limits_.bytes) {
        return nullptr;
    }
    bytes_ += size;
    return std::make_unique_for_overwrite<std::uint8_t[]>(size);
}

void DelayLine::free_idle() {
    for (size_t size_class = 0; size_class < kSizes.size(); ++size_class) {
        bytes_ -= kSizes.at(size_class) * free_.at(size_class).size();
        free_.at(size_class).clear();
    }
}

} // namespace reprise::proxy
