#pragma once
#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/in_flight.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/schedule/waiter.hh"

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::querier {

/// Takes queries out of the outbox and hands each to its carrier when it is due, as far as the
/// limit in flight, the memory for messages and the kernel's buffers let it.
class Sender {
public:
    /// All of them must outlive it.
    Sender(const ReplayOptions& options, const ReplayParts& parts, Outbox& outbox,
           InFlight& in_flight, Carriers& carriers, Waiter& waiter);

    /// Sends what is due, a bounded number of queries at a time.
    void send_due();

    /// When the next query is to be sent; at or before `now` = at once.
    [[nodiscard]] Nanoseconds next_send(Nanoseconds now);

    /// True once after a burst that ended at the limit in flight (--fast): answers come in a
    /// moment, and are cheaper to take many at once.
    [[nodiscard]] bool take_pause();

    /// Nothing of the backlog is sent any more.
    void skip_backlog(SkipReason reason);

    /// Why the run must stop; empty while it need not.
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

private:
    /// Stages what is due; false: nothing more can be sent now.
    bool stage_due(Nanoseconds& now);
    bool stage_held(Nanoseconds now);
    /// False: it is not its time, or it cannot be sent now.
    bool stage_front(Nanoseconds& now);
    bool launch_front(Nanoseconds now);
    void skip_front(SkipReason reason);
    /// False: it cannot be sent now.
    bool hand_over(std::uint32_t pending, Nanoseconds now);
    void flush(Nanoseconds now);
    bool wait_for(Nanoseconds time, Nanoseconds& now);
    [[nodiscard]] bool too_early(Nanoseconds now) const;
    [[nodiscard]] bool over(Nanoseconds now) const;
    bool too_late(Nanoseconds late);
    void note_departure(PendingQuery& pending, Nanoseconds now);
    void block(SendResult result, Nanoseconds now);

    /// Sending cannot go on before blocked_until_, or before a query leaves.
    [[nodiscard]] bool blocked() const {
        return blocked_until_ != 0 && landings_ == in_flight_.landings();
    }

    void prepare_front(Nanoseconds now);

    const ReplayOptions& options_;
    const Clock& clock_;
    Statistics& statistics_;
    PendingQueries& queries_;
    Matcher& matcher_;
    Resources& resources_;
    Outbox& outbox_;
    InFlight& in_flight_;
    Carriers& carriers_;
    Waiter& waiter_;
    size_t staged_ = 0;
    unsigned taken_ = 0;          ///< by carriers, in this turn
    unsigned ended_ = 0;          ///< without being sent, in this turn
    Nanoseconds stuck_since_ = 0; ///< no descriptor, nothing in flight; 0 = not so
    Nanoseconds blocked_until_ = 0;
    std::uint64_t landings_ = 0; ///< when it was blocked
    Nanoseconds prepared_ = 0;   ///< due time of the query prepared last
    bool burst_ = false;         ///< something was sent since the last pause
    std::string trouble_;
};

} // namespace reprise::querier
