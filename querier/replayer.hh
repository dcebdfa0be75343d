#pragma once
#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/in_flight.hh"
#include "querier/results/results.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/schedule/waiter.hh"

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::querier {

/// Takes queries, sends each when it is due, as far as the limit in flight, the memory for messages
/// and the kernel's buffers let it, and knows how each one ends. Knows nothing of the parent.
class Replayer {
public:
    /// `network` and `results` must outlive it. Throws Error where a carrier cannot be opened.
    Replayer(Network& network, const ReplayOptions& options, Results& results);

    Outbox& outbox() { return outbox_; }

    Carriers& carriers() { return carriers_; }

    /// What is told and learnt of sleeping.
    Waiter& waiter() { return waiter_; }

    /// Sends what is due, a bounded number of queries at a time.
    void send_due();

    /// Before the events of a wake-up: the clocks of its receive stamps.
    void begin_batch(const ClockPair& pair);

    /// What time ends: queries, idle connections; hedges; bounded.
    void expire(Nanoseconds now);

    /// Whether it may sleep a short while without an eye on its sockets: the kernel stamps what
    /// arrives, but a connection that is being opened holds queries back.
    [[nodiscard]] bool may_nap() const {
        return outbox_.started() && !options_.fast && resources_.opening == 0;
    }

    /// True once after a burst that ended at the limit in flight (--fast): answers come in a
    /// moment, and are cheaper to take many at once.
    [[nodiscard]] bool take_pause();

    /// When something is to be done next; at or before `now` = at once.
    [[nodiscard]] Nanoseconds next_wake(Nanoseconds now);

    /// Ends everything now: what was not sent is skipped, what is in flight timed out early.
    void abort();

    /// Why the run must stop; empty while it need not.
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

    /// Something for the statistics that a reader should know though the run is clean.
    void warn(const std::string& warning) { statistics_.warnings.push_back(warning); }

    /// Nothing waits and nothing is in flight.
    [[nodiscard]] bool settled() const { return outbox_.idle() && queries_.used() == 0; }

    [[nodiscard]] const Statistics& statistics();

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
    [[nodiscard]] Nanoseconds next_send(Nanoseconds now);

    /// Sending cannot go on before blocked_until_, or before a query leaves.
    [[nodiscard]] bool blocked() const {
        return blocked_until_ != 0 && landings_ == in_flight_.landings();
    }

    void prepare_front(Nanoseconds now);

    ReplayOptions options_;
    const Clock& clock_;
    Statistics statistics_;
    PendingQueries queries_;
    StampClock stamps_;
    Matcher matcher_;
    Resources resources_;
    ReplayParts parts_;
    Outbox outbox_;
    InFlight in_flight_;
    Carriers carriers_;
    Waiter waiter_;
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
