#pragma once
// Puts queries whose times were changed back into order.

#include "core/base/clock.hh"
#include "mutator/rules/engine/batch.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::mutator {

/// Holds queries until nothing earlier can come. Equal times keep the order of put(). Memory: about
/// 150 bytes and the message for each query held; kept for reuse.
class Reorder {
public:
    /// Copies the item; `time` is its new time.
    void put(const Item& item, Nanoseconds time);

    /// Appends what is due up to and including `until`, in order, with messages copied into the
    /// batch.
    void release(Nanoseconds until, Batch& batch);

    /// Held now.
    [[nodiscard]] size_t size() const { return heap_.size(); }

private:
    struct Slot {
        Item item; ///< its message is in `bytes`
        std::vector<std::uint8_t> bytes;
    };

    struct Entry {
        Nanoseconds time;
        std::uint64_t order;
        std::uint32_t slot;
    };

    static bool is_later(const Entry& a, const Entry& b);
    std::uint32_t free_slot();

    std::vector<Entry> heap_; ///< the earliest on top
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
    std::uint64_t order_ = 0;
};

} // namespace reprise::mutator
