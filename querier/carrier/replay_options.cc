// From what the controller asks for to what the replay does.
#include "querier/carrier/replay_options.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/numbers.hh"
#include "core/base/prefix.hh"
#include "core/wire/query.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/settings.hh"

#include <fmt/format.h>
#include <openssl/prov_ssl.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::querier {
namespace {

Nanoseconds seconds(double value) { return std::llround(value * 1e9); }

std::optional<Endpoint> endpoint(const std::string& text) {
    const auto parsed = Endpoint::parse(text);
    if (!text.empty() && !parsed) {
        throw UsageError(fmt::format("server address {} is not ADDR:PORT", text));
    }
    return parsed;
}

SourceMode source_mode(const std::string& name) {
    if (name == "addresses") {
        return SourceMode::kAddresses;
    }
    if (name == "mapped") {
        return SourceMode::kMapped;
    }
    return name == "packet" ? SourceMode::kPacket : SourceMode::kPorts;
}

/// OpenSSL's number of a version; 0 = any.
int tls_version(const std::string& name) {
    if (name == "1.2") {
        return TLS1_2_VERSION;
    }
    return name == "1.3" ? TLS1_3_VERSION : 0;
}

WaiterOptions waiter_options(const Settings& settings) {
    const auto early = parse_number<int>(settings.early_us);
    return {.early = early ? std::optional(*early * kMicrosecond) : std::nullopt,
            .spin = settings.spin_us * kMicrosecond};
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
    ReplayOptions out;
    out.servers = {.v4 = endpoint(options.server_v4()), .v6 = endpoint(options.server_v6())};
    out.timeout = seconds(settings.timeout_s);
    out.connection.idle_timeout = seconds(settings.idle_timeout_s);
    out.connection.queries_per_connection = settings.queries_per_connection;
    out.connection.server_closes = settings.closer == "server";
    out.connection.acknowledge_now = settings.socket.quickack;
    out.connection.tls = TlsOptions{.port = settings.tls.port,
                                    .lowest_version = tls_version(settings.tls.version),
                                    .highest_version = tls_version(settings.tls.version),
                                    .verify = settings.tls.verify,
                                    .authorities = options.authorities_pem(),
                                    .name = settings.tls.name,
                                    .groups = settings.tls.groups,
                                    .resume = settings.tls.resume,
                                    .early_data = settings.tls.early_data};
    out.tcp_fallback = settings.tcp_fallback;
    out.tcp_after_timeout = settings.tcp_after_timeout;
    out.in_flight = settings.in_flight;
    out.max_lateness = seconds(settings.max_lateness_s);
    out.late = seconds(settings.late_ms / 1e3);
    out.duration = seconds(settings.duration_s);
    out.answers = settings.answers;
    out.source_mode = source_mode(settings.source_mode);
    out.fast = settings.fast;
    out.dependent = settings.dependent;
    out.hedge_after = seconds(settings.hedge_ms / 1e3);
    const auto& server = out.servers.v4 ? out.servers.v4 : out.servers.v6;
    out.peers = peers_of(settings, server ? server->port : kDnsPort);
    out.waiter = waiter_options(settings);
    out.realtime = settings.realtime;
    return out;
}

} // namespace reprise::querier
