#pragma once
// The queries of one TCP connection: those waiting to be written and those written and not yet
// answered. Decides what becomes of them when the connection is lost.

#include "querier/schedule/links.hh"
#include "querier/schedule/slots.hh"

#include <cstdint>
#include <vector>

namespace reprise::querier {

class ConnectionQueue {
public:
    /// A new query waits for its turn.
    void enqueue(Slots& slots, std::uint32_t slot);

    /// The next query to write, or kNone.
    [[nodiscard]] std::uint32_t next() const { return waiting_.front(); }

    /// Its bytes were handed to the kernel, or at least tried to be.
    void started(Slots& slots, std::uint32_t slot);

    /// What was written never arrived: it waits again, before the others. The queries concerned.
    std::vector<std::uint32_t> take_back(Slots& slots);

    /// All that wait count as handed over.
    void start_all(Slots& slots);

    /// Calls `action(Slot&)` for each written query.
    template <typename Action> void for_flying(Slots& slots, const Action& action) const {
        for (std::uint32_t slot = flying_.front(); slot != kNone;
             slot = slots[slot].on_connection.next) {
            action(slots[slot]);
        }
    }

    /// The query ended (answered, timed out); it leaves.
    void remove(Slots& slots, std::uint32_t slot);

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

    Loss lose(Slots& slots, bool established);

private:
    using List = IndexList<&Slot::on_connection>;

    static void lose_written(Slots& slots, std::uint32_t slot, Loss& loss);

    List waiting_;
    List flying_;
};

} // namespace reprise::querier
