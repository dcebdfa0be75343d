#pragma once
// A map from short keys to ids in one flat array (open addressing, linear probing): a million
// of them must not cost a heap node each.

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace reprise {

template <size_t Size> class FlatIds {
public:
    using Key = std::array<std::uint8_t, Size>;

    /// The key's id and whether it is new; a new key gets `fresh_id` (below 2^32 - 1).
    std::pair<std::uint32_t, bool> find_or_add(const Key& key, std::uint32_t fresh_id) {
        if ((size_ + 1) * 4 > slots_.size() * 3) {
            grow();
        }
        Slot& slot = slots_[place_of(key)];
        if (slot.id != kEmpty) {
            return {slot.id, false};
        }
        slot = {.key = key, .id = fresh_id};
        ++size_;
        return {fresh_id, true};
    }

    /// The key's id, if it has one.
    [[nodiscard]] std::optional<std::uint32_t> find(const Key& key) const {
        if (slots_.empty()) {
            return std::nullopt;
        }
        const std::uint32_t id = slots_[place_of(key)].id;
        return id == kEmpty ? std::nullopt : std::optional(id);
    }

    /// Has the key's slot brought into the cache. Always inline: the compiler removes calls to a
    /// function that only prefetches.
    [[gnu::always_inline]] void expect(const Key& key) const {
        if (!slots_.empty()) {
            __builtin_prefetch(&slots_[home(key)]);
        }
    }

    [[nodiscard]] size_t size() const { return size_; }

    [[nodiscard]] size_t memory() const { return slots_.size() * sizeof(Slot); }

private:
    static constexpr std::uint32_t kEmpty = 0xffffffff;

    struct Slot {
        Key key{};
        std::uint32_t id = kEmpty;
    };

    [[nodiscard]] size_t home(const Key& key) const {
        return XXH3_64bits_withSeed(key.data(), Size, seed_) & (slots_.size() - 1);
    }

    /// Not operator==, which calls a function where Size is known.
    static bool same(const Key& a, const Key& b) {
        return std::memcmp(a.data(), b.data(), Size) == 0;
    }

    /// The place of the key's slot, or of the empty one where it belongs.
    [[nodiscard]] size_t place_of(const Key& key) const {
        size_t at = home(key);
        while (slots_[at].id != kEmpty && !same(slots_[at].key, key)) {
            at = (at + 1) & (slots_.size() - 1);
        }
        return at;
    }

    void grow() {
        const std::vector<Slot> old =
            std::exchange(slots_, std::vector<Slot>(slots_.empty() ? 64 : slots_.size() * 2));
        for (const Slot& slot : old) {
            if (slot.id != kEmpty) {
                slots_[place_of(slot.key)] = slot;
            }
        }
    }

    std::vector<Slot> slots_; ///< a power of two of them
    size_t size_ = 0;
    std::uint64_t seed_ = std::random_device{}(); ///< a trace cannot be made to collide
};

} // namespace reprise
