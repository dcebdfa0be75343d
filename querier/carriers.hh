#pragma once
#include "core/base/clock.hh"
#include "core/wire/query.hh"
#include "core/wire/settings.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/schedule/pending_queries.hh"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::querier {

/// The carriers of a replay, and which of them a query takes. Number 0 is UDP to the server, 1 to
/// kMostPeers are UDP to the peers of hedged queries; the last one has the connections to all.
class Carriers {
public:
    static constexpr std::uint8_t kMost = kMostPeers + 2;

    /// Throws Error where one cannot be opened.
    Carriers(const ReplayOptions& options, const CarrierParts& parts);

    /// The carrier of queries that travel so; null where there is none.
    Carrier* of(Transport transport) {
        const std::uint8_t number = number_of(transport);
        return number == kMost ? nullptr : carriers_[number].get();
    }

    Carrier& operator[](std::uint8_t number) { return *carriers_[number]; }

    /// Hands the query to its carrier (see Carrier::submit), once more where it lacks a descriptor
    /// that an idle socket has.
    SendResult submit(std::uint32_t pending);

    void flush();

    /// Handles one event of the poller. False: there may be more to handle.
    bool handle(const EventTag& tag, std::uint32_t events) {
        return carriers_[tag.carrier]->handle(tag, events);
    }

    /// Takes what came where no event tells of it.
    void poll();

    /// The events of `time` were handled. False: there may be more to read.
    void looked(Nanoseconds time, bool all) { events_.look(time, all); }

    /// What came before was read; a socket that holds data for long is not waited for.
    [[nodiscard]] Nanoseconds read_until(Nanoseconds now) const {
        return std::min({now, events_.read, polled_.read});
    }

    void tidy(Nanoseconds now);
    [[nodiscard]] Nanoseconds next_wake(Nanoseconds now) const;
    void count_drops();

private:
    /// Looks at what came. Time without one, where this process stood still, says nothing.
    struct Looks {
        Nanoseconds read = 0;       ///< what came before was read
        Nanoseconds left_since = 0; ///< each look since left something; 0: the last one did not

        void look(Nanoseconds time, bool all);
    };

    /// kMost where there is none.
    [[nodiscard]] std::uint8_t number_of(Transport transport) const {
        if (transport == Transport::kQuic || transport == Transport::kHttps) {
            return kMost;
        }
        return transport == Transport::kUdp ? std::uint8_t{0}
                                            : static_cast<std::uint8_t>(carriers_.size() - 1);
    }

    const Clock& clock_;
    PendingQueries& queries_;
    std::vector<std::unique_ptr<Carrier>> carriers_;
    Looks events_;
    Looks polled_;
};

} // namespace reprise::querier
