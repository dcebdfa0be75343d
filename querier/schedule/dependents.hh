#pragma once
// Queries that wait until the one before from the same source has ended (--dependent).

#include "core/wire/query.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/pending_queries.hh"

#include <cstdint>
#include <unordered_map>

namespace reprise::querier {

class Dependents {
public:
    explicit Dependents(PendingQueries& queries) : queries_(queries) {}

    /// A query of this source is under way.
    [[nodiscard]] bool busy(std::uint32_t source) const { return sources_.contains(source); }

    /// One is from now on.
    void start(std::uint32_t source) { sources_.try_emplace(source); }

    /// The query waits behind it.
    void park(std::uint32_t pending);

    /// The query under way has ended: the next one, which is under way from now on, or kNone.
    std::uint32_t end(std::uint32_t source);

    /// Any query that waits, taken out; kNone when none does.
    std::uint32_t take_any();

private:
    PendingQueries& queries_;
    /// Waiting queries of the sources with a query under way; a waiting one has no deadline yet.
    std::unordered_map<std::uint32_t, IndexList<&PendingQuery::by_deadline>> sources_;
};

} // namespace reprise::querier
