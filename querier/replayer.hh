#pragma once
// Takes queries, sends each when it is due, and knows how each one ends. Knows nothing of the
// parent.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/credit.hh"
#include "core/wire/query.hh"
#include "core/wire/result_file.hh"
#include "querier/connection/connection_transport.hh"
#include "querier/network/network.hh"
#include "querier/network/replay_options.hh"
#include "querier/results/results.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/backlog.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/schedule/waiter.hh"
#include "querier/sockets/descriptors.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/stamps.hh"
#include "querier/sockets/transport.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reprise::querier {

/// UDP transports: the server's, and one for each peer of hedged queries.
inline constexpr size_t kMostUdp = 16;

class Replayer final : public TransportEvents {
public:
    /// `network` and `results` must outlive it.
    Replayer(Network& network, const ReplayOptions& options, Results& results);

    /// Where queries wait; blocks go straight in.
    Backlog& backlog() { return backlog_; }

    /// Queries are due from `start` (CLOCK_MONOTONIC) on.
    void start(Nanoseconds start);

    /// Sends what is due, a bounded number of queries at a time.
    void send_due();

    /// Handles one event of the poller. False: there may be more to handle.
    bool handle(const EventTag& tag, std::uint32_t events);

    /// Takes what came where no event tells of it.
    void poll();

    /// Everything that came before `until` was read, as far as events show.
    void read_until(Nanoseconds until) { read_until_ = until; }

    /// Before the events of a wake-up: the clocks of its receive stamps.
    void begin_batch(const ClockPair& pair);

    /// Ends queries that timed out and whose answer cannot still be waiting to be read, hedges
    /// and closes idle connections; bounded.
    void expire(Nanoseconds now);

    /// The poller slept from `asleep` until its timer at `timer`.
    void woke(Nanoseconds asleep, Nanoseconds timer, Nanoseconds awake);

    /// Whether it may sleep a short while without an eye on its sockets: the kernel stamps what
    /// arrives, but a connection that is being opened holds queries back.
    [[nodiscard]] bool may_nap() const {
        return started_ && !options_.fast && connections_.opening() == 0;
    }

    /// True once after a burst that ended at the limit in flight (--fast): answers come in a
    /// moment, and are cheaper to take many at once.
    [[nodiscard]] bool take_pause() {
        return std::exchange(burst_, false) && options_.fast && blocked_until_ != 0;
    }

    /// Something else woke it.
    void woke_by_event() { waiter_.no_lesson(); }

    /// When something is to be done next; at or before `now` = at once.
    [[nodiscard]] Nanoseconds next_wake(Nanoseconds now);

    /// Ends everything now: what was not sent is skipped, what is in flight timed out early.
    void abort();

    /// What the kernel dropped and nobody has told of; the statistics are complete then.
    void count_drops();

    /// Something for the statistics that a reader should know though the run is clean.
    void warn(const std::string& warning) { statistics_.warnings.push_back(warning); }

    /// Nothing waits and nothing is in flight.
    [[nodiscard]] bool settled() const { return idle() && queries_.used() == 0; }

    /// Nothing waits.
    [[nodiscard]] bool idle() const { return backlog_.empty() && !backlog_.busy(); }

    /// How far behind the schedule the next query is.
    [[nodiscard]] Nanoseconds lag(Nanoseconds now) const;

    /// Why the run must stop; empty while it need not.
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

    /// What the parent may give again, since the last call: queries that were sent, and the bytes
    /// of blocks that are used up.
    Credit take_departed();

    /// Whether there is time for work that can wait, before the next query.
    [[nodiscard]] bool quiet(Nanoseconds now, Nanoseconds work) const;

    [[nodiscard]] const Statistics& statistics();

    void on_reply(Owner owner, const Reply& reply) override;
    void on_sent(std::uint32_t pending, const SendCall& call) override;
    void on_refused(std::uint32_t pending, SendResult result) override;
    void on_written(std::uint32_t pending) override;
    void on_failed(std::uint32_t pending, Status status) override;

private:
    using Deadlines = IndexList<&PendingQuery::by_deadline>;

    void open_udp(Network& network);
    Nanoseconds busy_wait_until(Nanoseconds time) const;
    [[nodiscard]] SourceOf source_of() const;

    [[nodiscard]] Nanoseconds due() const { return backlog_.due() + base_; }

    /// Stages what is due; false: nothing more can be sent now.
    bool stage_due(Nanoseconds& now);
    /// False: it is not its time, or it cannot be sent now.
    bool stage_front(Nanoseconds& now);
    bool wait_for(Nanoseconds time, Nanoseconds& now);
    bool stage_ready(Nanoseconds now);
    bool launch_front(Nanoseconds now);
    bool park_behind(const Query& query);
    bool room_to_keep();
    std::uint32_t take_front(const Query& query);
    void flush();
    [[nodiscard]] bool too_late(Nanoseconds late);
    void note_departure(PendingQuery& pending, Nanoseconds now);
    void note_sent(const PendingQuery& pending);
    [[nodiscard]] bool over(Nanoseconds now) const;
    SendResult hand_over(std::uint32_t pending, Nanoseconds now);
    SendResult hand_over_udp(std::uint32_t pending, Nanoseconds now);
    SendResult hand_over_stream(std::uint32_t pending, Nanoseconds now);
    void end_unsent(std::uint32_t pending, SendResult result);
    void warn_once(const PendingQuery& pending);
    bool make_room();
    void block(SendResult result, Nanoseconds now);
    void launch(std::uint32_t pending, Nanoseconds first_action);
    void land(std::uint32_t pending);
    void hedge(Nanoseconds now);
    void drop_copy(std::uint32_t pending);

    Nanoseconds& full_since(const PendingQuery& pending) {
        return full_since_.at(pending.peer)[pending.family() == 4 ? 0 : 1];
    }

    bool stays_full(const PendingQuery& pending, Nanoseconds now);
    void write_hedges();
    bool fall_back(std::uint32_t pending, const Reply& reply);
    bool take_marker(const Query& query);
    void fill_answer(PendingQuery& pending, const Reply& reply);
    Matcher::Match match_in_time(Owner owner, const Reply& reply);
    void leave(std::uint32_t pending, bool answered);
    void finish(std::uint32_t pending, Status status, Bytes reply = {});
    void skip(std::uint32_t pending, SkipReason reason);
    void prepare_front(Nanoseconds now);
    void rehearse(const Query& query);
    [[nodiscard]] Nanoseconds warm_wake(Nanoseconds now) const;
    void skip_front(SkipReason reason);
    void skip_waiting();

    const Clock& clock_;
    ReplayOptions options_;
    Results& results_;
    Statistics statistics_;
    PendingQueries queries_;
    Backlog backlog_;
    Waiter waiter_;
    StampClock stamps_;
    Matcher matcher_;
    Descriptors descriptors_;
    std::vector<std::unique_ptr<UdpTransport>> udp_; ///< to the server, then to each peer
    ConnectionTransport connections_;
    Deadlines deadlines_;
    std::unique_ptr<Dependents> dependents_; ///< where asked for
    std::unique_ptr<Hedges> hedges_;         ///< where asked for
    std::deque<std::uint32_t> ready_;        ///< to be sent before anything else
    std::vector<std::uint32_t> refused_;     ///< by the kernel in this flush, to be tried again
    size_t staged_ = 0;
    unsigned to_connections_ = 0; ///< queries given to connections in this turn
    unsigned skipped_ = 0;        ///< in this turn, behind the end of the time
    Nanoseconds stuck_since_ = 0; ///< no descriptor, nothing in flight; 0 = not so
    bool burst_ = false;          ///< something was sent since the last pause
    bool keep_messages_ = false;  ///< somebody wants them after they are sent
    size_t in_flight_ = 0;
    bool started_ = false;
    Nanoseconds base_ = 0;          ///< due time = due offset + base_
    Nanoseconds blocked_until_ = 0; ///< sending cannot go on before; 0 = it can
    Nanoseconds prepared_ = 0;      ///< due time of the query prepared last
    Nanoseconds now_ = 0;           ///< of the last look at the clock; for what need not be exact
    Nanoseconds read_until_ = 0;    ///< what came before was read: from events,
    Nanoseconds polled_until_ = 0;  ///< and by poll()
    std::uint64_t departed_ = 0;
    std::string trouble_;
    /// Since when the kernel has taken nothing, by peer and family; 0 = it does.
    std::array<std::array<Nanoseconds, 2>, kMostUdp> full_since_{};
    bool warned_unsupported_ = false;
};

} // namespace reprise::querier
