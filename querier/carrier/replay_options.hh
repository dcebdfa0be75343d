#pragma once
// What a querier is told, by the controller and on its command line.

#include "core/wire/record.hh"
#include "core/wire/settings.hh"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
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

/// Address number `index` of a host's prefix, from 0, leaving out the first (the network's own) and
/// in IPv4 the last (broadcast); nothing where the prefix has no more.
std::optional<IpAddress> source_address(const Prefix& prefix, std::uint64_t index);

/// How the Waiter is on time.
struct WaiterOptions {
    std::optional<Nanoseconds> early; ///< fixed; nothing = learn it
    Nanoseconds spin = 0;             ///< longest busy wait
};

inline Nanoseconds nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

/// What a replay is asked to do: the settings, checked, and what is made of them.
struct ReplayOptions : Settings {
    explicit ReplayOptions(Settings settings = {}) : Settings(std::move(settings)) {}

    Servers servers;
    std::string authorities; ///< PEM, trusted for the server's certificate; empty = the system's
    SourceMode sources = SourceMode::kPorts;
    std::vector<Prefix> prefixes; ///< of this host, for kMapped
    Nanoseconds timeout = nanoseconds(timeout_s);
    Nanoseconds idle_timeout = nanoseconds(idle_timeout_s);
    bool server_closes = closer == "server";                ///< we never close a connection first
    Nanoseconds max_lateness = nanoseconds(max_lateness_s); ///< then it is given up
    Nanoseconds late = nanoseconds(late_ms / 1e3);          ///< sent so late: counted; 0 = never
    Nanoseconds duration = nanoseconds(duration_s);         ///< of a `fast` replay; 0 = no end
    Nanoseconds hedge_after = nanoseconds(hedge_ms / 1e3);  ///< 0 = never
    std::vector<Endpoint> hedge_peers;
    WaiterOptions waiter;
    Credit credit = kQuerierCredit; ///< what the parent may have out
    size_t descriptors = 1024;

    /// Where queries go: the server under test (0), or a peer of hedged queries, from 1.
    [[nodiscard]] Servers servers_of(std::uint8_t peer) const;

    /// The local address that queries leave from whose source in the trace is this one, with this
    /// number; one of no family stands for the host's own. Nothing: there is none for it.
    [[nodiscard]] std::optional<IpAddress> local_address(const IpAddress& source,
                                                         std::uint64_t number) const;
};

/// What wire::Options ask for. Throws UsageError.
ReplayOptions replay_options(const wire::Options& options);

/// The value of --cpus: processors as in "0,2-5". Throws UsageError where it is not, or names one
/// this process may not use.
std::vector<unsigned> parse_cpus(const std::string& text);

/// The value of a --source-prefix. Throws UsageError.
Prefix parse_prefix(const std::string& text);

} // namespace reprise::querier
