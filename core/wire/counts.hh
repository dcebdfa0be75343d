#pragma once
// Everything queriers count, a line a counter. Sums, messages, result files, controller.json and
// the report take their counters from fields(); see core/base/json.hh. A new counter is a member
// and its line here; then `python -m cli.experiment.document`.

#include "core/base/clock.hh"
#include "core/wire/replay.pb.h"

#include <cstdint>

namespace reprise {

/// What became of queries. Every query received ends in one of answered ... skipped. These travel
/// to the controller, in the order of fields().
struct Counts {
    std::uint64_t received = 0;
    std::uint64_t sent = 0;
    std::uint64_t answered = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t send_failed = 0;
    std::uint64_t connection_failed = 0;
    std::uint64_t skipped = 0;
    std::uint64_t late = 0;
    std::uint64_t duplicate_answers = 0;
    std::uint64_t unmatched = 0;
    std::uint64_t malformed = 0;
    std::uint64_t retried = 0;
    std::uint64_t sent_late = 0;
    std::uint64_t send_unsure = 0;

    template <typename Visit> static void fields(Visit visit) {
        using C = Counts;
        visit("received", &C::received, "queries that reached a querier");
        visit("sent", &C::sent, "distinct queries handed to the kernel at least once");
        visit("answered", &C::answered, "queries with an answer in time");
        visit("timed_out", &C::timed_out, "queries without an answer in time");
        visit("send_failed", &C::send_failed, "queries that the kernel did not take");
        visit("connection_failed", &C::connection_failed, "queries whose connection failed");
        visit("skipped", &C::skipped, "queries that were not to be sent, by reason elsewhere");
        visit("late", &C::late, "answers after the timeout");
        visit("duplicate_answers", &C::duplicate_answers, "further answers to an answered query");
        visit("unmatched", &C::unmatched, "messages that answer no query still remembered");
        visit("malformed", &C::malformed, "messages of the server that cannot be read");
        visit("retried", &C::retried, "attempts on a new connection");
        visit("sent_late", &C::sent_late, "queries sent over late_ms after their time");
        visit("send_unsure", &C::send_unsure, "queries sent within a call of over 50 us");
    }

    Counts& operator+=(const Counts& more) {
        fields([&](auto, auto member, auto) { this->*member += more.*member; });
        return *this;
    }

    /// Queries that ended, whatever the end.
    [[nodiscard]] std::uint64_t ended() const {
        return answered + timed_out + send_failed + connection_failed + skipped;
    }
};

/// What became of connections.
struct ConnectionCounts {
    std::uint64_t connections_opened = 0;
    std::uint64_t reused_queries = 0;
    std::uint64_t peak_open = 0;
    std::uint64_t closed_by_server = 0;
    std::uint64_t closed_idle = 0;
    std::uint64_t closed_used_up = 0;
    std::uint64_t closed_by_trace = 0;
    std::uint64_t connections_evicted = 0;
    std::uint64_t half_open = 0;
    std::uint64_t bad_streams = 0;
    std::uint64_t connections_failed = 0;
    std::uint64_t resumed = 0;
    std::uint64_t early_data = 0;
    std::uint64_t early_data_rejected = 0;

    template <typename Visit> static void fields(Visit visit) {
        using C = ConnectionCounts;
        visit("opened", &C::connections_opened, "connections opened");
        visit("reused_queries", &C::reused_queries,
              "queries sent on a connection that another query had opened");
        visit("peak_open", &C::peak_open, "most connections open at one time");
        visit("closed_by_server", &C::closed_by_server, "connections the server closed first");
        visit("closed_idle", &C::closed_idle, "connections closed after the idle timeout");
        visit("closed_used_up", &C::closed_used_up,
              "connections closed after queries_per_connection");
        visit("closed_by_trace", &C::closed_by_trace,
              "connections closed where the trace's client closed");
        visit("evicted", &C::connections_evicted,
              "idle connections closed because descriptors ran short");
        visit("half_open", &C::half_open,
              "connections given up because the server's host acknowledged nothing");
        visit("bad_streams", &C::bad_streams,
              "connections ended because of a length prefix below 12");
        visit("failed", &C::connections_failed, "connections that never carried a query");
        visit("resumed", &C::resumed, "TLS connections that resumed an earlier session");
        visit("early_data", &C::early_data, "TLS connections whose early data was accepted");
        visit("early_data_rejected", &C::early_data_rejected,
              "TLS connections whose early data was rejected");
    }
};

/// The rest of what a querier counts.
struct QuerierCounts {
    std::uint64_t tcp_fallbacks = 0;
    std::uint64_t sockets_evicted = 0;
    std::uint64_t waited = 0;
    std::uint64_t hedged = 0;
    std::uint64_t hedges_won = 0;
    std::uint64_t behind_schedule = 0;
    Nanoseconds max_lateness = 0;
    std::uint64_t clock_steps = 0;
    std::uint64_t reply_bytes = 0;
    std::uint64_t unreachable = 0;
    std::uint64_t receive_overflows = 0;
    std::uint64_t frames_taken = 0;

    template <typename Visit> static void fields(Visit visit) {
        using C = QuerierCounts;
        visit("tcp_fallbacks", &C::tcp_fallbacks,
              "queries asked again over TCP, after a truncated answer or none");
        visit("sockets_evicted", &C::sockets_evicted,
              "idle UDP sockets closed because descriptors ran short");
        visit("waited", &C::waited, "queries held back by the query before of their source");
        visit("hedged", &C::hedged, "queries also sent to a peer");
        visit("hedges_won", &C::hedges_won, "queries answered first by the peer");
        visit("behind_schedule", &C::behind_schedule, "queries sent over 1 ms late");
        visit("max_lateness_ns", &C::max_lateness, "longest time a query was sent late");
        visit("clock_steps", &C::clock_steps, "steps of the clock");
        visit("reply_bytes", &C::reply_bytes, "bytes of answers");
        visit("unreachable", &C::unreachable, "ICMP errors seen on UDP sockets");
        visit("receive_overflows", &C::receive_overflows,
              "answers the kernel dropped because a socket's buffer was full");
        visit("frames_taken", &C::frames_taken,
              "packets of answers that a querier took before the kernel dropped them");
    }
};

/// Sets the counts of a message: values in the order of Counts::fields().
inline void set_counts(google::protobuf::RepeatedField<std::uint64_t>& values,
                       const Counts& counts) {
    values.Clear();
    Counts::fields([&](auto, auto member, auto) { values.Add(counts.*member); });
}

/// The counts of a message; what it lacks is 0.
inline Counts read_counts(const google::protobuf::RepeatedField<std::uint64_t>& values) {
    Counts counts;
    int at = 0;
    Counts::fields([&](auto, auto member, auto) {
        counts.*member = at < values.size() ? values.Get(at++) : 0;
    });
    return counts;
}

} // namespace reprise
