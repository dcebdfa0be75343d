#pragma once
// Keeps the bytes of DNS messages while their queries wait. Usual ones lie in pieces of 64 bytes to
// 1 KiB, in powers of two, cut from chunks that are never given back: steady state allocates
// nothing, and a message costs at most twice its size. Larger ones have memory of their own while
// they are kept, so that a size that is seen no more holds none.

#include "core/base/bytes.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::querier {

class MessageStore {
public:
    /// A copy of `message` (at most 65,535 bytes), owned by the store until forget().
    const std::uint8_t* keep(Bytes message);

    /// Gives the bytes back; `size` as it was kept.
    void forget(const std::uint8_t* message, size_t size);

    /// Bytes of the messages kept, as their pieces are.
    [[nodiscard]] size_t used() const { return used_; }

    /// Bytes in chunks, used or not.
    [[nodiscard]] size_t reserved() const { return chunks_.size() * kChunk; }

private:
    static constexpr size_t kChunk = 64UL << 10U;
    static constexpr size_t kSmallest = 64;
    static constexpr size_t kClasses = 5; ///< 64 B, 128 B, ... 1 KiB
    static constexpr size_t kLargest = kSmallest << (kClasses - 1);

    static size_t class_of(size_t size);
    static size_t piece_of(size_t size);
    void refill(size_t size_class);

    std::array<std::vector<std::uint8_t*>, kClasses> free_;
    std::vector<std::unique_ptr<std::uint8_t[]>> chunks_;
    size_t used_ = 0;
};

} // namespace reprise::querier
