#pragma once
// Takes queries, sends each when it is due, and knows how each one ends. Knows nothing of the
// parent.

#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/query.hh"
#include "core/result_file.hh"
#include "querier/descriptors.hh"
#include "querier/links.hh"
#include "querier/matcher.hh"
#include "querier/poller.hh"
#include "querier/results.hh"
#include "querier/schedule.hh"
#include "querier/slots.hh"
#include "querier/stamps.hh"
#include "querier/statistics.hh"
#include "querier/tcp_transport.hh"
#include "querier/transport.hh"
#include "querier/udp_transport.hh"
#include "querier/waiter.hh"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace reprise::querier {

/// What a replay is asked to do, from wire::Options, checked.
struct ReplayOptions {
    Servers servers;
    Nanoseconds timeout = 5 * kSecond;
    Nanoseconds idle_timeout = 20 * kSecond;
    size_t in_flight = 262144;
    Nanoseconds max_lateness = kSecond; ///< 0 = never give up
    bool answers = false;
    size_t credit = 131072; ///< queries the parent may have out
    size_t descriptors = 1024;
};

class Replayer final : public TransportEvents {
public:
    Replayer(Poller& poller, const ReplayOptions& options, WaiterOptions waiter, Results& results);

    /// Takes a query into the schedule. False: the parent has more out than it was granted.
    bool accept(const Query& query);

    /// A query is due at `start` (CLOCK_MONOTONIC) + its own due offset.
    void start(Nanoseconds start);

    /// Sends what is due, a bounded number of queries at a time.
    void send_due();

    /// Handles one event of the poller.
    void handle(const EventTag& tag, std::uint32_t events);

    /// Before the events of a wake-up: the clocks of its receive stamps.
    void begin_batch(const ClockPair& pair);

    /// Ends queries whose time is up and closes idle connections; bounded.
    void expire(Nanoseconds now);

    /// The poller slept from `asleep` until its timer at `timer`.
    void woke(Nanoseconds asleep, Nanoseconds timer, Nanoseconds awake);

    /// Something else woke it.
    void woke_by_event() { waiter_.no_lesson(); }

    /// When something is to be done next; at or before `now` = at once.
    [[nodiscard]] Nanoseconds next_wake(Nanoseconds now);

    /// Ends everything now: what was not sent is skipped, what is in flight timed out early.
    void abort();

    /// Nothing is scheduled and nothing is in flight.
    [[nodiscard]] bool settled() const { return slots_.used() == 0; }

    /// Nothing is scheduled.
    [[nodiscard]] bool idle() const { return schedule_.empty(); }

    /// How far behind the schedule the next query is.
    [[nodiscard]] Nanoseconds lag(Nanoseconds now) const;

    /// Why the run must stop; empty while it need not.
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

    /// Queries that left the schedule since the last call.
    std::uint64_t take_departed();

    /// Whether there is time for work that can wait, before the next query.
    [[nodiscard]] bool quiet(Nanoseconds now, Nanoseconds work) const;

    [[nodiscard]] const Statistics& statistics() const { return statistics_; }

    void on_reply(std::uint32_t owner, std::span<std::uint8_t> reply,
                  Nanoseconds received) override;
    void on_written(std::uint32_t slot) override;
    void on_failed(std::uint32_t slot, Status status) override;

private:
    using Deadlines = IndexList<&Slot::by_deadline>;

    [[nodiscard]] Nanoseconds due(const Schedule::Item& item) const;
    /// False: stop sending for now.
    bool send_front(Nanoseconds now, Nanoseconds due);
    [[nodiscard]] bool too_late(Nanoseconds late);
    void note_departure(Nanoseconds late);
    SendResult hand_over(std::uint32_t slot, Nanoseconds now);
    SendResult hand_over_udp(std::uint32_t slot);
    SendResult hand_over_tcp(std::uint32_t slot, Nanoseconds now);
    void end_unsent(std::uint32_t slot, SendResult result);
    void warn_once(const Slot& slot);
    bool make_room();
    void block(SendResult result, Nanoseconds now);
    void launch(std::uint32_t slot, Nanoseconds first_action);
    void land(std::uint32_t slot);
    void answer(std::uint32_t slot, std::span<std::uint8_t> reply, Nanoseconds received);
    void finish(std::uint32_t slot, Status status, Bytes reply = {});
    void skip(std::uint32_t slot, SkipReason reason);

    ReplayOptions options_;
    Results& results_;
    Statistics statistics_;
    Slots slots_;
    Schedule schedule_;
    Waiter waiter_;
    StampClock stamps_;
    Matcher matcher_;
    Descriptors descriptors_;
    UdpTransport udp_;
    TcpTransport tcp_;
    Deadlines deadlines_;
    size_t in_flight_ = 0;
    bool started_ = false;
    Nanoseconds base_ = 0;          ///< due time = due offset + base_
    Nanoseconds blocked_until_ = 0; ///< sending cannot go on before; 0 = it can
    std::uint64_t departed_ = 0;
    std::string trouble_;
    bool warned_unsupported_ = false;
};

} // namespace reprise::querier
