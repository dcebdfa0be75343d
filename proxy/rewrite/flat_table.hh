#pragma once
// Address -> address, built once and then only asked: open addressing in one array at most half
// full. A hit costs one or two cache lines.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace reprise::proxy {

/// `Size` is 4 or 16: addresses as bytes in network order.
template <size_t Size> class FlatTable {
public:
    using Address = std::array<std::uint8_t, Size>;

    explicit FlatTable(const std::vector<std::pair<Address, Address>>& pairs = {})
        : slots_(std::bit_ceil(std::max<size_t>(pairs.size() * 2, 2))) {
        for (const auto& [key, value] : pairs) {
            slots_[place(key.data())] = {.key = key, .value = value, .used = 1};
        }
    }

    /// The value of the key at `key` (Size bytes), or null.
    [[nodiscard]] const std::uint8_t* find(const std::uint8_t* key) const {
        const Slot& slot = slots_[place(key)];
        return slot.used != 0 ? slot.value.data() : nullptr;
    }

private:
    struct Slot {
        Address key{};
        Address value{};
        std::uint8_t used = 0;
    };

    /// Where the key is, or the free slot where it would be.
    size_t place(const std::uint8_t* key) const {
        const size_t mask = slots_.size() - 1;
        size_t at = hash(key) & mask;
        while (slots_[at].used != 0 && std::memcmp(slots_[at].key.data(), key, Size) != 0) {
            at = (at + 1) & mask;
        }
        return at;
    }

    static size_t hash(const std::uint8_t* key) {
        std::uint64_t mixed = 0;
        for (size_t i = 0; i < Size; i += 4) {
            std::uint32_t word = 0;
            std::memcpy(&word, key + i, 4);
            mixed = (mixed ^ word) * 0x9e37'79b9'7f4a'7c15U;
            mixed ^= mixed >> 32U;
        }
        return mixed;
    }

    std::vector<Slot> slots_;
};

} // namespace reprise::proxy
