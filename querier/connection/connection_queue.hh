#pragma once
// The queries of one TCP connection: those waiting to be written and those written and not yet
// answered. Decides what becomes of them when the connection is lost.

#include "querier/schedule/links.hh"
#include "querier/schedule/pending_queries.hh"

#include <cstdint>
#include <vector>

namespace reprise::querier {

class ConnectionQueue {
public:
    /// A new query waits for its turn.
    void enqueue(PendingQueries& queries, std::uint32_t pending);

    /// The next query to write, or kNone.
    [[nodiscard]] std::uint32_t next() const { return waiting_.front(); }

    /// Its bytes were handed to the kernel, or at least tried to be.
    void started(PendingQueries& queries, std::uint32_t pending);

    /// What was written never arrived: it waits again, before the others. The queries concerned.
    std::vector<std::uint32_t> take_back(PendingQueries& queries);

    /// All that wait count as handed over.
    void start_all(PendingQueries& queries);

    /// Calls `action(PendingQuery&)` for each written query.
    template <typename Action>
    void for_flying(PendingQueries& queries, const Action& action) const {
        for (std::uint32_t pending = flying_.front(); pending != kNone;
             pending = queries[pending].on_connection.next) {
            action(queries[pending]);
        }
    }

    /// The query ended (answered, timed out); it leaves.
    void remove(PendingQueries& queries, std::uint32_t pending);

    /// Something was written and is not answered.
    [[nodiscard]] bool flying() const { return !flying_.empty(); }

    /// Nobody needs the connection.
    [[nodiscard]] bool idle() const { return waiting_.empty() && flying_.empty(); }

    /// The connection is gone: empties the queue, in the order the queries came.
    /// A connection that was never established fails all of them. Of one that was, written queries
    /// are tried once more (their retry is counted here), and fail the second time; waiting ones
    /// were not touched and simply move.
    struct Loss {
        std::vector<std::uint32_t> retry;
        std::vector<std::uint32_t> failed;
    };

    Loss lose(PendingQueries& queries, bool established);

private:
    using List = IndexList<&PendingQuery::on_connection>;

    static void lose_written(PendingQueries& queries, std::uint32_t pending, Loss& loss);

    List waiting_;
    List flying_;
};

} // namespace reprise::querier
