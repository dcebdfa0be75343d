#include "querier/tls_sessions.hh"

#include <cstdint>
#include <iterator>
#include <utility>

namespace reprise::querier {

void TlsSessions::store(std::uint32_t source, TlsSession session) {
    take(source);
    if (by_source_.size() >= limit_) {
        by_source_.erase(entries_.front().source);
        entries_.pop_front();
    }
    entries_.push_back({.source = source, .session = std::move(session)});
    by_source_[source] = std::prev(entries_.end());
}

TlsSession TlsSessions::take(std::uint32_t source) {
    const auto found = by_source_.find(source);
    if (found == by_source_.end()) {
        return {};
    }
    TlsSession session = std::move(found->second->session);
    entries_.erase(found->second);
    by_source_.erase(found);
    return session;
}

} // namespace reprise::querier
