#pragma once
#include "core/base/clock.hh"
#include "core/wire/credit.hh"
#include "core/wire/query.hh"
#include "querier/network/replay_options.hh"
#include "querier/results/results.hh"
#include "querier/schedule/backlog.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/pending_queries.hh"

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace reprise::querier {

/// Queries that are to be sent, in their order: first those that were held back, then the backlog.
class Outbox {
public:
    /// `options`, `queries` and `statistics` must outlive it.
    Outbox(const ReplayOptions& options, PendingQueries& queries, Statistics& statistics);

    /// Where queries wait for their time; blocks go straight in.
    Backlog& backlog() { return backlog_; }

    /// Queries are due from `start` (CLOCK_MONOTONIC) on.
    void start(Nanoseconds start) { start_ = start; }

    [[nodiscard]] const std::optional<Nanoseconds>& started() const { return start_; }

    // What was held back

    /// The first query; kNone where there is none.
    [[nodiscard]] std::uint32_t held() const { return held_.empty() ? kNone : held_.front(); }

    void pop_held() { held_.pop_front(); }

    /// The query, whose message is kept, goes before anything else in the backlog.
    void hold(std::uint32_t pending) { held_.push_back(pending); }

    /// The kernel had no room for the query: after the flush it goes before what is younger.
    void refuse(std::uint32_t pending);

    /// All of a flush is known. Frees the blocks that are used up. True: some were refused.
    bool flushed();

    /// The source's query has ended: the next one that waited for it is held, no longer parked.
    void end_of(std::uint32_t source);

    /// Any query that is held or parked, taken out; kNone where there is none.
    std::uint32_t take_held();

    // The backlog, which must not be empty

    [[nodiscard]] Nanoseconds due() const { return backlog_.due() + start_.value_or(0); }

    /// Parks the front where it must wait for the one before of its source. Its place is the
    /// parent's only when it is sent, so that what waits stays bounded.
    bool park(const Query& query);

    /// Takes the front, `query`, into the pending queries, which have room; its message is borrowed
    /// until the next flushed().
    std::uint32_t take(const Query& query);

    /// The front is no query.
    void drop();

    // What others want to know

    /// Nothing waits, neither is anything being taken in.
    [[nodiscard]] bool idle() const { return backlog_.empty() && !backlog_.busy(); }

    /// How far behind the schedule the next query is.
    [[nodiscard]] Nanoseconds lag(Nanoseconds now) const;

    /// Whether there is time for work that can wait, before the next query.
    [[nodiscard]] bool quiet(Nanoseconds now, Nanoseconds work) const;

    /// What the parent may give again, since the last call: queries that were sent, and the bytes
    /// of blocks that are used up.
    Credit take_departed();

private:
    std::uint32_t pending_front(const Query& query);

    const ReplayOptions& options_;
    PendingQueries& queries_;
    Statistics& statistics_;
    Backlog backlog_;
    std::optional<Dependents> dependents_; ///< where asked for
    std::deque<std::uint32_t> held_;
    std::vector<std::uint32_t> refused_;
    std::optional<Nanoseconds> start_;
    std::uint64_t departed_ = 0;
    bool keep_messages_; ///< somebody wants them after they are sent
};

} // namespace reprise::querier
