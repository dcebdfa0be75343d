#pragma once
#include "core/wire/record.hh"
#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/results/results.hh"
#include "querier/schedule/backlog.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
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

    /// The kernel had no room for the query: it goes before what is younger.
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
    Dependents dependents_;
    std::deque<std::uint32_t> held_;
    std::ptrdiff_t refused_ = 0; ///< the first so many of `held_`, by the flush under way
    std::optional<Nanoseconds> start_;
    std::uint64_t departed_ = 0;
    bool keep_messages_; ///< somebody wants them after they are sent
};

/// The carriers of a replay, and which of them a query takes. Number 0 is UDP to the server, those
/// from 1 on are UDP to the peers of hedged queries; each other one asks the server and its peers.
class Carriers {
public:
    static constexpr std::uint8_t kMost = 64;

    /// Throws Error where one cannot be opened.
    Carriers(const ReplayOptions& options, const CarrierParts& parts);

    /// The carrier of queries that travel so; null where there is none.
    Carrier* of(Transport transport) {
        const std::uint8_t number = number_of(transport);
        return number == kMost ? nullptr : carriers_[number].get();
    }

    Carrier& operator[](std::uint8_t number) { return *carriers_[number]; }

    [[nodiscard]] const std::vector<std::unique_ptr<Carrier>>& all() const { return carriers_; }

    /// Hands the query to its carrier (see Carrier::submit), once more where it lacks a descriptor
    /// that an idle socket has.
    SendResult submit(std::uint32_t pending);

    /// The events of `time` were handled; not `all`: there may be more to read. Takes what came
    /// where no event tells of it.
    void looked(Nanoseconds time, bool all);

    /// What came before was read; a socket that holds data for long is not waited for.
    [[nodiscard]] Nanoseconds read_until(Nanoseconds now) const { return std::min(now, read_); }

private:
    /// kMost where there is none.
    [[nodiscard]] std::uint8_t number_of(Transport transport) const {
        return by_transport_.at(static_cast<size_t>(transport));
    }

    PendingQueries& queries_;
    std::vector<std::unique_ptr<Carrier>> carriers_;
    std::array<std::uint8_t, kTransports.size()> by_transport_{};
    // By looks at what came; time without one, where this process stood still, says nothing.
    Nanoseconds read_ = 0;       ///< what came before was read
    Nanoseconds left_since_ = 0; ///< each look since left something; 0: the last one did not
};

/// Queries from the hand-over to their ends: timeouts, answers, hedges, records.
class InFlight final : public CarrierEvents {
public:
    InFlight(const ReplayParts& parts, const ReplayOptions& options, Results& results,
             Outbox& outbox, Carriers& carriers);

    /// The time, for what need not be exact.
    void look(Nanoseconds now) { now_ = now; }

    /// Hands the query to its carrier: kStaged, kTaken; kBusy, kNoRoom: it can be tried again. On
    /// everything else it has ended.
    SendResult submit(std::uint32_t pending, Nanoseconds now);

    /// Ends queries that timed out and whose answer cannot still be waiting to be read; bounded.
    void expire(Nanoseconds now);

    /// Sends the copies that are due to peers, of queries whose answer cannot wait to be read;
    /// bounded.
    void hedge(Nanoseconds now);

    /// When expire() or hedge() has something to do.
    [[nodiscard]] Nanoseconds next_wake() const;

    /// Ends a query that is not handed over; one that was before is not skipped.
    void skip(std::uint32_t pending, SkipReason reason);

    /// Ends all by an early timeout; `after_each` is called for what their ends let go.
    template <typename Action> void end_all(const Action& after_each) {
        while (!deadlines_.empty()) {
            parts_.queries[deadlines_.front()].record.marks |= kMarkEndedEarly;
            finish(deadlines_.front(), Status::kTimedOut);
            after_each();
        }
    }

    [[nodiscard]] size_t count() const { return count_; }

    /// Queries that left so far, by an end or to be tried again.
    [[nodiscard]] std::uint64_t landings() const { return landings_; }

    void on_reply(Owner owner, const Reply& reply) override;
    void on_sent(std::uint32_t pending, const SendCall& call) override;
    void on_refused(std::uint32_t pending, SendResult result) override;
    void on_failed(std::uint32_t pending, Status status) override;

private:
    SendResult hand_over(std::uint32_t pending, Nanoseconds now);
    void land(std::uint32_t pending);
    SendResult take_back(std::uint32_t pending, SendResult result, Nanoseconds now);
    bool fall_back(std::uint32_t pending, bool answered);
    void time_out(std::uint32_t pending);
    void leave(std::uint32_t pending, bool answered);
    void finish(std::uint32_t pending, Status status, Bytes reply = {});

    ReplayParts parts_;
    const ReplayOptions& options_;
    Results& results_;
    Outbox& outbox_;
    Carriers& carriers_;
    PendingQueries& queries_;
    Statistics& statistics_;
    Hedges hedges_;
    IndexList<&PendingQuery::by_deadline> deadlines_;
    size_t count_ = 0;
    std::uint64_t landings_ = 0;
    Nanoseconds now_ = 0;
    /// Since when the kernel has taken nothing of a carrier and family; 0 = it does.
    std::array<std::array<Nanoseconds, 2>, Carriers::kMost> full_since_{};
    bool warned_ = false;
};

} // namespace reprise::querier
