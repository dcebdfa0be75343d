#pragma once
// Maps from short keys to ids in one flat array (open addressing, linear probing): a million of
// them must not cost a heap node each.

#include "core/base/address.hh"
#include "core/base/clock.hh"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
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

/// A map from addresses to ids. No address counts as ::.
///
/// Memory an address: slots of 8 bytes (IPv4) and 20 bytes (IPv6), filled to between 3/8 and 3/4,
/// so 11 to 22 and 27 to 54 bytes; half as much again for the moment of growing.
class AddressIds {
public:
    /// The address's id and whether it is new; a new one gets `fresh_id` (below 2^32 - 1).
    std::pair<std::uint32_t, bool> find_or_add(const IpAddress& address, size_t fresh_id) {
        const auto id = static_cast<std::uint32_t>(fresh_id);
        const std::uint8_t* const at = address.bytes.data();
        return address.is_v4() ? v4_.find_or_add(key<4>(at), id) : v6_.find_or_add(key<16>(at), id);
    }

    /// The id of the address at `at`, in network byte order, if it has one.
    [[nodiscard]] std::optional<std::uint32_t> find(const std::uint8_t* at, bool v6) const {
        return v6 ? v6_.find(key<16>(at)) : v4_.find(key<4>(at));
    }

    [[nodiscard]] std::optional<std::uint32_t> find(const IpAddress& address) const {
        return find(address.bytes.data(), !address.is_v4());
    }

    /// Its id will be asked for soon.
    [[gnu::always_inline]] void expect(const IpAddress& address) const {
        const std::uint8_t* const at = address.bytes.data();
        address.is_v4() ? v4_.expect(key<4>(at)) : v6_.expect(key<16>(at));
    }

    [[nodiscard]] size_t size() const { return v4_.size() + v6_.size(); }

    /// Bytes of the slots.
    [[nodiscard]] size_t memory() const { return v4_.memory() + v6_.memory(); }

private:
    template <size_t Size> static typename FlatIds<Size>::Key key(const std::uint8_t* at) {
        typename FlatIds<Size>::Key out;
        std::copy_n(at, Size, out.begin());
        return out;
    }

    FlatIds<4> v4_;
    FlatIds<16> v6_;
};

/// Addresses, numbered in the order in which they came. Memory: 17 bytes more for each.
class AddressTable {
public:
    std::uint32_t add(const IpAddress& address) {
        const auto [id, fresh] = ids_.find_or_add(address, addresses_.size());
        if (fresh) {
            addresses_.push_back(address);
        }
        return id;
    }

    [[nodiscard]] std::optional<std::uint32_t> find(const IpAddress& address) const {
        return ids_.find(address);
    }

    [[nodiscard]] const IpAddress& operator[](std::uint32_t id) const { return addresses_[id]; }

    [[nodiscard]] const std::vector<IpAddress>& all() const { return addresses_; }

    [[nodiscard]] size_t size() const { return addresses_.size(); }

private:
    AddressIds ids_;
    std::vector<IpAddress> addresses_;
};

/// Values by hash, in two generations of which the older one is forgotten as a whole: for between
/// `patience` and twice as long in the trace's time, and at most `most` of them: beyond that the
/// older half is forgotten. Memory: about 27 bytes each, and the value.
template <typename Value> class Recent {
public:
    explicit Recent(Nanoseconds patience, size_t most = std::numeric_limits<size_t>::max())
        : patience_(patience), most_(most) {}

    /// The trace has come to this time, perhaps by a step back of its clock.
    void advance(Nanoseconds now) {
        if (std::abs(now - since_) >= patience_ || young_.values.size() >= most_ / 2) {
            old_ = std::exchange(young_, {});
            since_ = now;
        }
    }

    /// The value that was added last, null where there is none. Good until the next add().
    Value* find(std::uint64_t hash) {
        for (Generation* const one : {&young_, &old_}) {
            if (const auto number = one->numbers.find(key(hash))) {
                return &one->values[*number];
            }
        }
        return nullptr;
    }

    /// The value of now, which is new where none was added lately.
    Value& add(std::uint64_t hash) {
        const auto [number, fresh] =
            young_.numbers.find_or_add(key(hash), static_cast<std::uint32_t>(young_.values.size()));
        if (fresh) {
            young_.values.emplace_back();
        }
        return young_.values[number];
    }

    [[nodiscard]] size_t size() const { return young_.values.size() + old_.values.size(); }

private:
    using Numbers = FlatIds<sizeof(std::uint64_t)>;

    struct Generation {
        Numbers numbers;
        std::vector<Value> values; ///< by number
    };

    static Numbers::Key key(std::uint64_t hash) { return std::bit_cast<Numbers::Key>(hash); }

    Nanoseconds patience_;
    size_t most_;
    Nanoseconds since_ = 0; ///< where `young_` began
    Generation young_;
    Generation old_; ///< from before
};

} // namespace reprise
