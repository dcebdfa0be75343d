#pragma once
// What a querier sees of the world besides its parent: what time it is, ways to send queries, and
// events to wait for. kernel_network.hh has the real one; scenarios have their own, in which time
// passes as fast as the querier can follow.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "querier/network/replay_options.hh"
#include "querier/results/results.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/sockets/carrier.hh"
#include "querier/sockets/socket.hh"
#include "querier/sockets/stamps.hh"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <sys/epoll.h>

namespace reprise::querier {

class Network;

/// Which local address a query leaves from; nothing = there is none for it.
using SourceOf = std::function<std::optional<IpAddress>(const PendingQuery&)>;

/// Which carrier is wanted.
struct CarrierWish {
    const ReplayOptions& options;
    Servers servers;         ///< the server under test, or a peer
    SourceOf source;         ///< empty: from the host's own address
    std::uint8_t number = 0; ///< of this carrier among the replay's, for its events
};

/// What carriers work with; all must outlive them.
struct CarrierParts {
    Network& network;
    Resources& resources;
    PendingQueries& queries;
    Matcher& matcher;
    const StampClock& stamps;
    Statistics& statistics;
    CarrierEvents& events;
};

class Network {
public:
    Network() = default;
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;
    virtual ~Network() = default;

    [[nodiscard]] virtual const Clock& clock() const = 0;

    /// The carrier of the source mode. Throws Error where it cannot be opened.
    virtual std::unique_ptr<Carrier> udp_carrier(const CarrierWish& wish,
                                                 const CarrierParts& parts) = 0;

    /// Begins to connect, from `source` or from the host's own address.
    virtual OpenedSocket connect(const Endpoint& server, const std::optional<IpAddress>& source,
                                 bool kernel_stamps) = 0;

    /// Sleeps until an event or `wake`; at or before `now` = only looks. The events are good until
    /// the next call.
    virtual std::span<const epoll_event> wait(Nanoseconds now, Nanoseconds wake) = 0;

    /// Whether time ended the last wait.
    [[nodiscard]] virtual bool timer_fired() const = 0;

    /// Sleeps whatever arrives.
    virtual void sleep_until(Nanoseconds time) = 0;
};

} // namespace reprise::querier
