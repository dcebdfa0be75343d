// From what the controller asks for to what the replay does.
#include "core/address.hh"
#include "core/replay.pb.h"
#include "querier/process.hh"
#include "querier/replayer.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace reprise::querier {
namespace {

constexpr size_t kMostInFlight = size_t{1} << 22U;
/// Numbers of UDP paths have four bits; one is the server's.
constexpr size_t kMostPeers = 15;

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

} // namespace

ReplayOptions replay_options(const wire::Options& options, std::string& error) {
    ReplayOptions out;
    out.servers = {.v4 = endpoint(options.server_v4(), error),
                   .v6 = endpoint(options.server_v6(), error)};
    out.timeout = options.timeout_ns();
    out.idle_timeout = options.idle_timeout_ns();
    out.in_flight = options.in_flight() == 0 ? out.in_flight : options.in_flight();
    out.max_lateness = options.max_lateness_ns();
    out.answers = options.answers();
    out.source_mode = source_mode(options.source_mode(), error);
    out.fast = options.fast();
    out.dependent = options.dependent();
    out.hedge_after = options.hedge_peers().empty() ? 0 : options.hedge_after_ns();
    for (const std::string& peer : options.hedge_peers()) {
        if (const auto parsed = Endpoint::parse(peer)) {
            out.peers.push_back(*parsed);
        } else {
            error = fmt::format("hedge peer '{}' is not ADDR:PORT", peer);
        }
    }
    if (out.timeout <= 0 || out.idle_timeout < 0) {
        error = "the timeout must be positive and the idle timeout not negative";
    } else if (out.in_flight > kMostInFlight) {
        error = fmt::format("in-flight limit {} is over {}", out.in_flight, kMostInFlight);
    } else if (out.peers.size() > kMostPeers) {
        error = fmt::format("{} peers are over {}", out.peers.size(), kMostPeers);
    }
    return out;
}

} // namespace reprise::querier
