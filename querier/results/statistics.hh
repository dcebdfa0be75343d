#pragma once
#include "core/base/clock.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/result_file.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::querier {

/// How often what went wrong; bounded, because reasons come from libraries and servers.
class Failures {
public:
    static constexpr size_t kMostReasons = 16;

    using Count = std::pair<std::string, std::uint64_t>;

    void add(std::string_view reason) {
        const auto known = std::ranges::find(counts_, reason, &Count::first);
        if (known != counts_.end()) {
            ++known->second;
        } else if (counts_.size() < kMostReasons) {
            counts_.emplace_back(reason, 1);
        } else {
            ++other_;
        }
    }

    /// In the order they first came.
    [[nodiscard]] const std::vector<Count>& counts() const { return counts_; }

    /// Those that came after the list was full.
    [[nodiscard]] std::uint64_t other() const { return other_; }

private:
    std::vector<Count> counts_;
    std::uint64_t other_ = 0;
};

/// Everything a querier counts. Every query received ends in one of answered ... skipped.
struct Statistics {
    std::uint64_t received = 0;
    std::uint64_t sent = 0; ///< distinct queries handed to the kernel at least once
    std::uint64_t answered = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t send_failed = 0;
    std::uint64_t connection_failed = 0;
    std::uint64_t skipped = 0;
    std::uint64_t late = 0;              ///< answers after the timeout
    std::uint64_t duplicate_answers = 0; ///< further answers to an answered query
    std::uint64_t unmatched = 0;         ///< messages that answer nothing we remember
    std::uint64_t malformed = 0;         ///< messages of the server that cannot be read
    std::uint64_t retried = 0;           ///< attempts on a new connection
    std::uint64_t sent_late = 0;         ///< sent later than ReplayOptions::late after their time
    std::uint64_t send_unsure = 0;       ///< sent within a call of over 50 us: see kMarkUnsure

    std::uint64_t connections_opened = 0;
    std::uint64_t reused_queries = 0; ///< sent on a connection another query had opened
    std::uint64_t open_now = 0;
    std::uint64_t peak_open = 0;
    std::uint64_t closed_by_server = 0;
    std::uint64_t closed_idle = 0;
    std::uint64_t closed_used_up = 0;      ///< by us, after --queries-per-connection
    std::uint64_t closed_by_trace = 0;     ///< by us, as the trace's client did
    std::uint64_t connections_evicted = 0; ///< idle ones closed because descriptors ran short
    std::uint64_t half_open = 0;           ///< given up: the server's host acknowledged nothing
    std::uint64_t bad_streams = 0;        ///< connections ended because of a length prefix below 12
    std::uint64_t connections_failed = 0; ///< never carried a query
    std::uint64_t resumed = 0;            ///< TLS connections with a session of before
    std::uint64_t early_data = 0;         ///< TLS connections whose early data was accepted
    std::uint64_t early_data_rejected = 0;
    Failures failures; ///< why connections with queries on them ended badly
    std::uint64_t tcp_fallbacks = 0;

    std::uint64_t sockets_evicted = 0; ///< idle ones closed because descriptors ran short
    std::uint64_t waited = 0;          ///< held back by the source's query before
    std::uint64_t hedged = 0;          ///< also sent to a peer
    std::uint64_t hedges_won = 0;      ///< answered first by the peer
    std::uint64_t behind_schedule = 0; ///< sent over 1 ms late
    Nanoseconds max_lateness = 0;
    std::uint64_t clock_steps = 0;
    std::uint64_t reply_bytes = 0;
    std::uint64_t unreachable = 0; ///< ICMP errors seen on UDP sockets
    std::uint64_t receive_overflows =
        0; ///< replies the kernel dropped because a socket's buffer was full
    std::vector<std::string> warnings; ///< what makes a clean run say less than it seems to

    /// Adds one end of a query.
    void count_end(Status status);

    [[nodiscard]] std::uint64_t ended() const {
        return answered + timed_out + send_failed + connection_failed + skipped;
    }

    void fill(wire::Counts& counts) const;
};

/// The trailing JSON of a .rq file (docs/formats.md); reads this process's CPU time and memory.
std::string statistics_json(const Statistics& statistics, bool clean, const std::string& because);

} // namespace reprise::querier
