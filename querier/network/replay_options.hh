#pragma once
#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/prefix.hh"
#include "core/wire/credit.hh"
#include "querier/network/connection_options.hh"
#include "querier/schedule/waiter.hh"
#include "querier/sockets/transport.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::wire {
class Options;
}

namespace reprise::querier {

/// Where a query's source address comes from (design: source modes).
enum class SourceMode : std::uint8_t {
    kPorts,     ///< the host's own address, one port a source
    kAddresses, ///< the trace's address
    kMapped,    ///< one address a source out of the host's prefix
    kPacket,    ///< the trace's address and port, past the sockets
};

/// What a replay is asked to do, from wire::Options, checked.
struct ReplayOptions {
    Servers servers;
    Nanoseconds timeout = 5 * kSecond;
    ConnectionOptions connection; ///< its timeout is set from `timeout`
    bool tcp_fallback = false;    ///< after a truncated answer over UDP
    size_t in_flight = 262144;
    Nanoseconds max_lateness = kSecond; ///< 0 = never give up
    Nanoseconds late = 0;               ///< sent so long after its time: counted; 0 = never
    Nanoseconds duration = 0;           ///< of a `fast` replay; 0 = no end
    bool answers = false;
    SourceMode source_mode = SourceMode::kPorts;
    std::vector<Prefix> prefixes; ///< of this host, for kMapped
    bool fast = false;            ///< no due times
    bool dependent = false;
    Nanoseconds hedge_after = 0; ///< 0 = never
    std::vector<Endpoint> peers; ///< for hedged queries
    WaiterOptions waiter;
    bool realtime = false;          ///< run before ordinary processes, where the kernel allows it
    Credit credit = kQuerierCredit; ///< what the parent may have out
    size_t descriptors = 1024;
};

/// What wire::Options ask for. Throws UsageError.
ReplayOptions replay_options(const wire::Options& options);

} // namespace reprise::querier
