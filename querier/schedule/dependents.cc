#include "querier/schedule/dependents.hh"

#include "querier/schedule/links.hh"
#include "querier/schedule/pending_queries.hh"

#include <cstdint>

namespace reprise::querier {

void Dependents::park(std::uint32_t pending) {
    sources_[queries_[pending].record.source].push_back(queries_, pending);
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
        at->second.remove(queries_, next);
    }
    return next;
}

std::uint32_t Dependents::take_any() {
    while (!sources_.empty()) {
        const std::uint32_t pending = end(sources_.begin()->first);
        if (pending != kNone) {
            return pending;
        }
    }
    return kNone;
}

} // namespace reprise::querier
