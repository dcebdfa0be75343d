#pragma once
// Hedged queries: one without an answer for some time also goes to a peer; the first answer wins
// and both are recorded.
//
// A hedged query is a pair of pending queries, the original and its copy, each in flight to its own
// peer. The query ends with the first answer, or when both have timed out; the other one stays
// until its own answer or timeout, so that the loser's time is known.

#include "core/wire/result_file.hh"
#include "querier/schedule/pending_queries.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::querier {

// Queries that wait until the one before from the same source has ended (--dependent).

class Dependents {
public:
    explicit Dependents(PendingQueries& queries) : queries_(queries) {}

    /// A query of this source is under way from now on. False: one was before.
    bool start(std::uint32_t source) { return sources_.try_emplace(source).second; }

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

/// Both ways of a hedged query; times CLOCK_MONOTONIC, 0 = no answer.
struct HedgeRow {
    std::uint64_t sequence = 0;
    std::uint8_t peer = 0; ///< from 1, in the order of --peers
    std::array<Nanoseconds, 2> sent{};
    std::array<Nanoseconds, 2> received{};
    bool won = false; ///< the peer's answer came first
};

class Hedges {
public:
    /// Queries are hedged `after` they were handed over, `timeout` before their deadlines;
    /// a peer is of the query's address family.
    Hedges(PendingQueries& queries, Nanoseconds timeout, Nanoseconds after,
           std::vector<Endpoint> peers)
        : queries_(queries), timeout_(timeout), after_(after), peers_(std::move(peers)) {}

    /// The original is in flight: it is hedged if it lives long enough.
    void watch(std::uint32_t pending);

    /// It ended, or is hedged.
    void unwatch(std::uint32_t pending);

    /// When the next query is to be hedged; max() = none.
    [[nodiscard]] Nanoseconds next() const {
        return watched_.empty() ? std::numeric_limits<Nanoseconds>::max()
                                : handed_over(watched_.front()) + after_;
    }

    /// Makes the copy of the query whose turn it is; it has its peer and is not sent yet.
    /// kNone where there is no place left or no peer of its address family.
    std::uint32_t split();

    /// The copy was not sent and ends here: the original goes on alone.
    void cancel(std::uint32_t copy);

    /// One of a pair has left its peer with this status and its record filled in. If the query ends
    /// with it, its record is now that of the whole query, which has the returned status: where
    /// neither was answered, the original's.
    /// `row`: that of the pair, where both have left now.
    std::optional<Status> settle(std::uint32_t pending, Status status,
                                 std::optional<HedgeRow>& row);

private:
    struct Pair {
        HedgeRow row;
        RqRecord record;                   ///< the original's
        Status status = Status::kTimedOut; ///< the original's, once it has left
        int open = 2;
        bool decided = false;
        bool canceled = false;
    };

    /// When the query was handed to its carrier.
    [[nodiscard]] Nanoseconds handed_over(std::uint32_t pending) const {
        return queries_[pending].deadline - timeout_;
    }

    /// Makes the record of the one that ends a query that of the whole query.
    static void complete(PendingQuery& pending, const Pair& pair, Status status);

    /// The next peer of this family in turn, from 1; 0 = none.
    std::uint8_t next_peer(std::uint8_t family);

    PendingQueries& queries_;
    Nanoseconds timeout_;
    Nanoseconds after_;
    std::vector<Endpoint> peers_;
    size_t turn_ = 0;
    IndexList<&PendingQuery::by_hedge> watched_;
    std::vector<Pair> pairs_;
    std::vector<std::uint32_t> free_;
};

} // namespace reprise::querier
