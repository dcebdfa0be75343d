#include "querier/message_store.hh"

#include "core/bytes.hh"

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

void MessageStore::refill(size_t size_class) {
    const size_t piece = kSmallest << size_class;
    // Not value-initialised: a chunk's pages are touched only when messages are put there.
    chunks_.push_back(std::make_unique_for_overwrite<std::uint8_t[]>(kChunk));
    for (size_t at = kChunk; at >= piece; at -= piece) {
        free_[size_class].push_back(chunks_.back().get() + (at - piece));
    }
}

const std::uint8_t* MessageStore::keep(Bytes message) {
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
    free_[class_of(size)].push_back(const_cast<std::uint8_t*>(message)); // it is ours
}

} // namespace reprise::querier
