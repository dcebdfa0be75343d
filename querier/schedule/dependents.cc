#include "querier/schedule/dependents.hh"

#include "querier/schedule/links.hh"
#include "querier/schedule/slots.hh"

#include <cstdint>

namespace reprise::querier {

void Dependents::park(std::uint32_t slot) {
    sources_[slots_[slot].record.source].push_back(slots_, slot);
}

std::uint32_t Dependents::end(std::uint32_t source) {
    const auto at = sources_.find(source);
    if (at == sources_.end()) {
        return kNone;
    }
    const std::uint32_t next = at->second.front();
    if (next == kNone) {
        sources_.erase(at);
    } else {
        at->second.remove(slots_, next);
    }
    return next;
}

std::uint32_t Dependents::take_any() {
    while (!sources_.empty()) {
        const std::uint32_t slot = end(sources_.begin()->first);
        if (slot != kNone) {
            return slot;
        }
    }
    return kNone;
}

} // namespace reprise::querier
