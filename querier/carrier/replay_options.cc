#include "querier/carrier/replay_options.hh"

#include "core/base/error.hh"
#include "core/base/text.hh"
#include "core/wire/query.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/settings.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <sched.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

std::optional<Endpoint> endpoint(const std::string& text) {
    const auto parsed = Endpoint::parse(text);
    demand(text.empty() || parsed, fmt::format("server address {} is not ADDR:PORT", text));
    return parsed;
}

static_assert(std::ranges::count(kSourceModeWords, ',') == static_cast<int>(SourceMode::kPacket),
              "a word for each source mode");

SourceMode source_mode(std::string_view name) {
    const auto before = kSourceModeWords.substr(0, kSourceModeWords.find(name));
    return static_cast<SourceMode>(std::ranges::count(before, ','));
}

/// "2" or "2-5" into `out`; false where it is neither.
bool add_range(std::string_view text, std::vector<unsigned>& out) {
    const size_t dash = text.find('-');
    unsigned first = 0;
    unsigned last = 0;
    if (!parse_number(text.substr(0, dash), first) ||
        !parse_number(dash == std::string_view::npos ? text : text.substr(dash + 1), last) ||
        last < first || last >= CPU_SETSIZE) {
        return false;
    }
    for (unsigned cpu = first; cpu <= last; ++cpu) {
        out.push_back(cpu);
    }
    return true;
}

} // namespace

std::optional<IpAddress> source_address(const Prefix& prefix, std::uint64_t index) {
    const std::uint64_t host = index + 1;
    const bool last = prefix.address.is_v4() && host + 1 == std::uint64_t{1} << prefix.free_bits();
    return host == 0 || last ? std::nullopt : prefix.host(host);
}

ReplayOptions replay_options(const wire::Options& options) {
    Settings settings;
    for (const auto& [key, text] : options.settings()) {
        set(settings, key, text);
    }
    check(settings);
    ReplayOptions out(std::move(settings));
    out.servers = {.v4 = endpoint(options.server_v4()), .v6 = endpoint(options.server_v6())};
    out.authorities = options.authorities_pem();
    out.sources = source_mode(out.source_mode);
    const auto& server = out.servers.v4 ? out.servers.v4 : out.servers.v6;
    out.hedge_peers = peers_of(out, server ? server->port : kDnsPort);
    const auto early = parse_number<int>(out.early_us);
    out.waiter = {.early = early ? std::optional(*early * kMicrosecond) : std::nullopt,
                  .spin = out.spin_us * kMicrosecond};
    return out;
}

Servers ReplayOptions::servers_of(std::uint8_t peer) const {
    if (peer == 0) {
        return servers;
    }
    const Endpoint& one = hedge_peers.at(peer - 1U);
    return one.address.is_v4() ? Servers{.v4 = one, .v6 = {}} : Servers{.v4 = {}, .v6 = one};
}

std::optional<IpAddress> ReplayOptions::local_address(const IpAddress& source,
                                                      std::uint64_t number) const {
    if (sources != SourceMode::kMapped) { // kPacket: for TCP and TLS, which need the host's stack
        return sources == SourceMode::kPorts ? IpAddress{} : source;
    }
    const auto prefix = std::ranges::find(prefixes, source.family,
                                          [](const Prefix& one) { return one.address.family; });
    return prefix == prefixes.end() ? std::nullopt : source_address(*prefix, number);
}

std::vector<unsigned> parse_cpus(const std::string& text) {
    std::vector<unsigned> cpus;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (const auto part : std::views::split(text, ',')) {
        demand(add_range({part.begin(), part.end()}, cpus),
               fmt::format("--cpus {}: not a list of processors; give e.g. 0,2-3", text));
    }
    for (const unsigned cpu : cpus) {
        demand(CPU_ISSET(cpu, &allowed),
               fmt::format("--cpus {}: processor {} is not there or not ours; see `nproc` and "
                           "`taskset -p $$`",
                           text, cpu));
    }
    return cpus;
}

Prefix parse_prefix(const std::string& text) {
    const auto prefix = Prefix::parse_network(text);
    if (!prefix || text.find('/') == std::string::npos) {
        throw UsageError(fmt::format("--source-prefix {}: not ADDRESS/BITS with the host bits "
                                     "zero; give e.g. 10.1.0.0/16 or fd00:1::/64",
                                     text));
    }
    return *prefix;
}

} // namespace reprise::querier
