// From what the controller asks for to what the replay does.
#include "querier/network/replay_options.hh"

#include "core/base/address.hh"
#include "core/base/limits.hh"
#include "core/wire/replay.pb.h"
#include "querier/network/connection_options.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/prov_ssl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace reprise::querier {
namespace {

std::optional<Endpoint> endpoint(const std::string& text, std::string& error) {
    const auto parsed = Endpoint::parse(text);
    if (!text.empty() && !parsed) {
        error = fmt::format("server address {} is not ADDR:PORT", text);
    }
    return parsed;
}

SourceMode source_mode(const std::string& name, std::string& error) {
    constexpr std::array kNames{"ports", "addresses", "mapped", "packet"};
    const auto found = std::ranges::find(kNames, name.empty() ? "ports" : name);
    if (found == kNames.end()) {
        error = fmt::format("source mode {} is not known; use {}", name, fmt::join(kNames, ", "));
        return SourceMode::kPorts;
    }
    return static_cast<SourceMode>(found - kNames.begin());
}

/// OpenSSL's number of a version; 0 = any.
int tls_version(const std::string& name, std::string& error) {
    if (name == "1.2") {
        return TLS1_2_VERSION;
    }
    if (name == "1.3") {
        return TLS1_3_VERSION;
    }
    if (!name.empty() && name != "any") {
        error = fmt::format("TLS version {} is not known; use 1.2, 1.3 or any", name);
    }
    return 0;
}

TlsOptions tls_options(const wire::Tls& tls, std::string& error) {
    constexpr std::uint32_t kDotPort = 853;
    const int version = tls_version(tls.version(), error);
    if (tls.port() > std::numeric_limits<std::uint16_t>::max()) {
        error = fmt::format("TLS port {} is over 65535", tls.port());
    }
    return {.port = static_cast<std::uint16_t>(tls.port() == 0 ? kDotPort : tls.port()),
            .lowest_version = version,
            .highest_version = version,
            .verify = tls.verify(),
            .authorities = tls.authorities_pem(),
            .name = tls.name(),
            .resume = tls.resume(),
            .early_data = tls.early_data()};
}

ConnectionOptions connection_options(const wire::Options& options, std::string& error) {
    ConnectionOptions out;
    out.idle_timeout = options.idle_timeout_ns();
    out.queries_per_connection = options.queries_per_connection();
    out.server_closes = options.server_closes();
    if (options.has_tls()) {
        out.tls = tls_options(options.tls(), error);
    }
    return out;
}

} // namespace

ReplayOptions replay_options(const wire::Options& options, std::string& error) {
    ReplayOptions out;
    out.servers = {.v4 = endpoint(options.server_v4(), error),
                   .v6 = endpoint(options.server_v6(), error)};
    out.timeout = options.timeout_ns();
    out.connection = connection_options(options, error);
    out.tcp_fallback = options.tcp_fallback();
    out.in_flight = options.in_flight() == 0 ? out.in_flight : options.in_flight();
    out.max_lateness = options.max_lateness_ns();
    out.answers = options.answers();
    out.source_mode = source_mode(options.source_mode(), error);
    out.fast = options.fast();
    out.duration = options.duration_ns();
    out.late = options.late_ns();
    out.dependent = options.dependent();
    out.hedge_after = options.hedge_peers().empty() ? 0 : options.hedge_after_ns();
    for (const std::string& peer : options.hedge_peers()) {
        if (const auto parsed = Endpoint::parse(peer)) {
            out.peers.push_back(*parsed);
        } else {
            error = fmt::format("hedge peer '{}' is not ADDR:PORT", peer);
        }
    }
    if (out.timeout <= 0 || out.connection.idle_timeout < 0) {
        error = "the timeout must be positive and the idle timeout not negative";
    } else if (out.in_flight > kMostInFlight) {
        error = fmt::format("in-flight limit {} is over {}", out.in_flight, kMostInFlight);
    } else if (out.peers.size() > kMostPeers) {
        error = fmt::format("{} peers are over {}", out.peers.size(), kMostPeers);
    }
    return out;
}

} // namespace reprise::querier
