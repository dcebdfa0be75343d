#pragma once
#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/in_flight.hh"
#include "querier/results/results.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/schedule/waiter.hh"
#include "querier/sender.hh"

#include <string>

namespace reprise::querier {

/// The replay of one querier: takes queries, has each sent when it is due, and knows how each one
/// ends. Knows nothing of the parent.
class Replayer {
public:
    /// `network` and `results` must outlive it. Throws Error where a carrier cannot be opened.
    Replayer(Network& network, const ReplayOptions& options, Results& results);

    Outbox& outbox() { return outbox_; }

    Carriers& carriers() { return carriers_; }

    /// What is told and learnt of sleeping.
    Waiter& waiter() { return waiter_; }

    Sender& sender() { return sender_; }

    /// Before the events of a wake-up: the clocks of its receive stamps.
    void begin_batch(const ClockPair& pair);

    /// What time ends: queries, idle connections; hedges; bounded.
    void expire(Nanoseconds now);

    /// Whether it may sleep a short while without an eye on its sockets: the kernel stamps what
    /// arrives, but a connection that is being opened holds queries back.
    [[nodiscard]] bool may_nap() const {
        return outbox_.started() && !options_.fast && resources_.opening == 0;
    }

    /// When something is to be done next; at or before `now` = at once.
    [[nodiscard]] Nanoseconds next_wake(Nanoseconds now);

    /// Ends everything now: what was not sent is skipped, what is in flight timed out early.
    void abort();

    /// Something for the statistics that a reader should know though the run is clean.
    void warn(const std::string& warning) { statistics_.warnings.push_back(warning); }

    /// Nothing waits and nothing is in flight.
    [[nodiscard]] bool settled() const { return outbox_.idle() && queries_.used() == 0; }

    [[nodiscard]] const Statistics& statistics();

private:
    ReplayOptions options_;
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
    Sender sender_;
};

} // namespace reprise::querier
