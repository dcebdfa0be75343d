#include "querier/connection/tls_sessions.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace reprise::querier {

void TlsSessions::drop_oldest(std::uint32_t source) {
    const auto found = by_source_.find(source);
    auto& [entries, count] = found->second;
    entries_.erase(entries.front());
    std::shift_left(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(count), 1);
    if (--count == 0) {
        by_source_.erase(found);
    }
}

void TlsSessions::store(std::uint32_t source, TlsSession session) {
    const auto known = by_source_.find(source);
    if (known != by_source_.end() && known->second.count == kMostOfASource) {
        drop_oldest(source);
    } else if (entries_.size() >= limit_) {
        drop_oldest(entries_.front().source); // the oldest of all is the oldest of its source
    }
    entries_.push_back({.source = source, .session = std::move(session)});
    auto& [entries, count] = by_source_[source];
    entries.at(count++) = std::prev(entries_.end());
}

TlsSession TlsSessions::take(std::uint32_t source) {
    const auto found = by_source_.find(source);
    if (found == by_source_.end()) {
        return {};
    }
    auto& [entries, count] = found->second;
    const auto newest = entries.at(--count);
    TlsSession session = std::move(newest->session);
    entries_.erase(newest);
    if (count == 0) {
        by_source_.erase(found);
    }
    return session;
}

} // namespace reprise::querier
