#include "querier/schedule/message_store.hh"

#include "core/base/bytes.hh"

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

} // namespace reprise::querier
