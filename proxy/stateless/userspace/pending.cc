#include "proxy/stateless/userspace/pending.hh"

#include "core/base/clock.hh"
#include "proxy/stateless/userspace/segment.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::proxy::stateless {

/// Ends soon: at most a quarter of the keys is in use.
QueryKey PendingQueries::free_key() {
    QueryKey key;
    do {
        const std::uint64_t bits = random_.bits();
        key = {.socket = static_cast<std::uint8_t>((bits >> 16U) % kSockets),
               .id = static_cast<std::uint16_t>(bits)};
    } while (by_key_.contains(key));
    return key;
}

const Pending& PendingQueries::add(Pending entry) {
    if (entries_.size() >= limit_) {
        erase(entries_.begin());
        ++evictions_;
    }
    entry.key = free_key();
    const auto added = entries_.insert(entries_.end(), entry);
    by_connection_[entry.connection] = added;
    by_key_[entry.key] = added;
    peak_ = std::max(peak_, entries_.size());
    lived_ -= now_;
    return *added;
}

const Pending* PendingQueries::find(const Connection& connection) const {
    const auto found = by_connection_.find(connection);
    return found == by_connection_.end() ? nullptr : &*found->second;
}

const Pending* PendingQueries::find(QueryKey key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &*found->second;
}

bool PendingQueries::remove(const Connection& connection) {
    const auto found = by_connection_.find(connection);
    if (found == by_connection_.end()) {
        return false;
    }
    erase(found->second);
    return true;
}

size_t PendingQueries::expire(Nanoseconds now) {
    now_ = now;
    const size_t before = entries_.size();
    while (!entries_.empty() && entries_.front().deadline <= now) {
        erase(entries_.begin());
    }
    return before - entries_.size();
}

std::optional<Nanoseconds> PendingQueries::next_due() const {
    return entries_.empty() ? std::nullopt : std::optional(entries_.front().deadline);
}

void PendingQueries::erase(Entries::iterator entry) {
    by_key_.erase(entry->key);
    by_connection_.erase(entry->connection);
    entries_.erase(entry);
    lived_ += now_;
}

} // namespace reprise::proxy::stateless
