#pragma once
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/result_file.hh"
#include "querier/carriers.hh"
#include "querier/network/replay_options.hh"
#include "querier/outbox.hh"
#include "querier/results/results.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/sockets/carrier.hh"
#include "querier/sockets/stamps.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::querier {

/// What queries in flight are part of; all must outlive them.
struct ReplayParts {
    const Clock& clock;
    const ReplayOptions& options;
    PendingQueries& queries;
    Matcher& matcher;
    const StampClock& stamps;
    const Resources& resources;
    Statistics& statistics;
    Results& results;
    Outbox& outbox;
    Carriers& carriers;
};

/// Queries from the hand-over to their ends: timeouts, answers, hedges, records.
class InFlight final : public CarrierEvents {
public:
    explicit InFlight(const ReplayParts& parts);

    /// The time, for what need not be exact.
    void look(Nanoseconds now) { now_ = now; }

    /// Hands the query to its carrier: kStaged, kTaken; kBusy, kNoRoom: it can be tried again. On
    /// everything else it has ended.
    SendResult submit(std::uint32_t pending, Nanoseconds now);

    /// Ends queries that timed out and whose answer cannot still be waiting to be read; bounded.
    void expire(Nanoseconds now);

    /// Sends the copies that are due to peers; bounded.
    void hedge(Nanoseconds now);

    /// When expire() or hedge() has something to do.
    [[nodiscard]] Nanoseconds next_wake() const;

    /// Ends a query that was not handed over.
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
    bool fall_back(std::uint32_t pending, const Reply& reply);
    void leave(std::uint32_t pending, bool answered);
    void finish(std::uint32_t pending, Status status, Bytes reply = {});

    /// Since when the kernel has taken nothing of this carrier and family; 0 = it does.
    Nanoseconds& full_since(const PendingQuery& pending) {
        return full_since_.at(pending.carrier).at(pending.family() == 4 ? 0 : 1);
    }

    ReplayParts parts_;
    const ReplayOptions& options_;
    PendingQueries& queries_;
    Statistics& statistics_;
    std::optional<Hedges> hedges_; ///< where asked for
    IndexList<&PendingQuery::by_deadline> deadlines_;
    size_t count_ = 0;
    std::uint64_t landings_ = 0;
    Nanoseconds now_ = 0;
    std::array<std::array<Nanoseconds, 2>, Carriers::kMost> full_since_{};
    bool warned_ = false;
};

} // namespace reprise::querier
