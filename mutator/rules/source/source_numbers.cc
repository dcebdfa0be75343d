#include "mutator/rules/source/source_numbers.hh"

#include "core/base/address.hh"
#include "mutator/rules/engine/source_key.hh"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::mutator {

std::optional<std::uint32_t> SourceNumbers::number_of(const IpAddress& address) {
    Slot* slot = &find(address);
    if (slot->address.family != 0) {
        return slot->number;
    }
    if (size_ == most_) {
        return std::nullopt;
    }
    if (2 * (size_ + 1) > slots_.size()) {
        grow();
        slot = &find(address);
    }
    *slot = {.address = address, .number = static_cast<std::uint32_t>(size_++)};
    return slot->number;
}

SourceNumbers::Slot& SourceNumbers::find(const IpAddress& address) {
    const size_t mask = slots_.size() - 1;
    size_t at = source_key(address, address.family) & mask;
    while (slots_[at].address.family != 0 && slots_[at].address != address) {
        at = (at + 1) & mask;
    }
    return slots_[at];
}

void SourceNumbers::grow() {
    std::vector<Slot> before(slots_.size() * 2);
    std::swap(before, slots_);
    for (const Slot& slot : before) {
        if (slot.address.family != 0) {
            find(slot.address) = slot;
        }
    }
}

} // namespace reprise::mutator
