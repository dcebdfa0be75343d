// What the parser of the command line cannot check: ranges, and options that need or exclude
// others.
#include "controller/authorities.hh"
#include "controller/generator.hh"
#include "controller/options.hh"
#include "controller/timetable.hh"
#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/base/limits.hh"
#include "core/base/trace_time.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>

namespace reprise::controller {
namespace {

void demand(bool good, const std::string& what) {
    if (!good) {
        throw UsageError(what);
    }
}

void demand_time(double value, const char* name) {
    demand(value > 0 && value < 1e6,
           fmt::format("{}: must be above 0 and below 1000000 seconds", name));
}

void demand_moment(const std::string& text, const char* name) {
    demand(text.empty() || TraceTime::parse(text),
           fmt::format("{} {}: not a time in the trace; give seconds from the trace's first query, "
                       "seconds since the epoch or RFC 3339 like 2016-10-06T13:55:51.5Z",
                       name, text));
}

void validate_pace(const Options& options) {
    const Pace& pace = options.pace;
    demand(pace.speed >= 0.001 && pace.speed <= 1e6, "--speed: must be 0.001 to 1000000");
    demand(pace.rate == 0 || (pace.rate >= 0.001 && pace.rate <= 1e8),
           "--rate: must be 0.001 to 100000000 queries a second");
    demand(int{pace.speed != 1} + int{pace.rate > 0} + int{pace.fast} <= 1,
           "--speed, --rate and --fast exclude each other; give one of them");
}

void validate_span(const Options& options) {
    demand_moment(options.from, "--from");
    demand_moment(options.until, "--until");
    const auto from = TraceTime::parse(options.from);
    const auto until = TraceTime::parse(options.until);
    demand(
        !from || !until || from->absolute != until->absolute || from->value < until->value,
        fmt::format("--from {} is not before --until {}; give an earlier --from or a later --until",
                    options.from, options.until));
    demand(options.duration_s >= 0 && options.duration_s < 1e8,
           "--duration-s: must be 0 to 100000000 seconds");
    const bool ends = options.limit > 0 || options.duration_s > 0;
    demand(options.loop > 0 || ends, "--loop 0 never ends; give --limit or --duration-s as well");
    demand(options.loop == 1 || options.check == "options" ||
               std::filesystem::is_regular_file(options.trace),
           fmt::format("--loop: {} cannot be read twice; give a file", options.trace));
}

void validate_generator(const Options& options) {
    if (options.generate.empty()) {
        demand(!options.trace.empty(), "no TRACE; give a capture, or --generate NAME");
        return;
    }
    demand(options.trace.empty(), "TRACE and --generate exclude each other; give one of them");
    demand(
        Question::parse(options.generate).has_value(),
        fmt::format("--generate {}: not NAME[/TYPE], e.g. www.example.com/AAAA", options.generate));
    demand(options.generate_sources > 0 && options.generate_sources <= kMostGenerated,
           fmt::format("--generate-sources: must be 1 to {}", kMostGenerated));
    demand(options.pace.rate > 0 || options.pace.fast,
           "--generate has no times of its own; give --rate or --fast");
    demand(options.limit > 0 || options.duration_s > 0,
           "--generate never ends; give --limit or --duration-s");
    demand(options.loop == 1 && options.from.empty() && options.until.empty() &&
               !options.collapse_retransmits,
           "--generate goes without --loop, --from, --until and --collapse-retransmits; leave them "
           "out");
}

/// A replay is a load test, and its target may be somebody else's.
void validate_targets(const Options& options) {
    const auto check = [&](const char* option, const std::string& text, const IpAddress& address) {
        demand(
            options.allow_public || !address.is_public(),
            fmt::format("{} {}: a public address; replays go to private, loopback or benchmark "
                        "addresses only (198.18.0.0/15, fd00::/8) unless --allow-public is given",
                        option, text));
    };
    for (const std::string& text : options.servers) {
        const Servers found = parse_servers({text}, options.server_port);
        check("--server", text, (found.v4 ? found.v4 : found.v6)->address);
    }
    for (const std::string& text : options.peers) {
        check("--peers", text, parse_hedge_peers({text}, options.server_port).front().address);
    }
}

void validate_hedge(const Options& options) {
    const size_t peers = parse_hedge_peers(options.peers, options.server_port).size();
    demand(peers <= kMostPeers,
           fmt::format("--peers: {} peers given; give at most {}", peers, kMostPeers));
    demand(options.hedge_ms >= 0 && options.hedge_ms < options.timeout_s * 1e3,
           "--hedge: must be above 0 and below --timeout-s, in milliseconds");
    demand((options.hedge_ms > 0) == !options.peers.empty(),
           "--hedge and --peers need each other; give both");
}

void demand_one_of(const std::string& text, const char* name,
                   std::initializer_list<const char*> known) {
    demand(std::ranges::find(known, text) != known.end(),
           fmt::format("{} {}: give {}", name, text, fmt::join(known, ", ")));
}

/// A host name as certificates have it (RFC 9525 section 2.2).
bool is_host_name(const std::string& text) {
    constexpr size_t kLongest = 253;
    const auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    };
    return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, fits) &&
           !text.starts_with('.') && !IpAddress::parse(text);
}

void validate_tls(const DnsTls& tls) {
    demand(tls.port > 0, "--tls-port: must be 1 to 65535");
    demand_one_of(tls.version, "--tls-version", {"any", "1.2", "1.3"});
    demand(
        tls.name.empty() || is_host_name(tls.name),
        fmt::format("--tls-name {}: not a host name, e.g. server.example; leave it out to verify "
                    "the server's address",
                    tls.name));
    demand(!tls.early_data || tls.resume,
           "--tls-early-data needs --tls-resume; give both, or neither");
    demand(!tls.early_data || tls.version != "1.2",
           "--tls-early-data needs TLS 1.3; leave out --tls-version 1.2");
    read_authorities(tls.authorities);
}

void validate_transport(const Options& options) {
    constexpr std::uint32_t kMostPerConnection = 1'000'000;
    transport_of(options.transport);
    demand_one_of(options.closer, "--closer", {"client", "server"});
    demand(options.queries_per_connection <= kMostPerConnection,
           fmt::format("--queries-per-connection: must be 0 to {}", kMostPerConnection));
    demand(!options.tcp_fallback || options.hedge_ms == 0,
           "--tcp-fallback and --hedge exclude each other; give one of them");
    validate_tls(options.dns_tls);
}

/// The server answers the trace's own addresses, which are other people's.
void validate_source_mode(const Options& options) {
    const std::string& mode = options.source_mode;
    demand_one_of(mode, "--source-mode", {"ports", "addresses", "mapped", "packet"});
    demand(
        (mode != "addresses" && mode != "packet") || options.confirm_return_path,
        fmt::format("--source-mode {}: the server's answers to the trace's addresses might leave "
                    "the testbed; route them back to the client host or load a guard, and give "
                    "--confirm-return-path",
                    mode));
}

} // namespace

void validate(const Options& options) {
    constexpr int kMostLateMs = 86'400'000;
    demand_time(options.window_s, "--window-s");
    demand_time(options.timeout_s, "--timeout-s");
    demand_time(options.idle_timeout_s, "--idle-timeout-s");
    demand_time(options.max_lateness_s, "--max-lateness-s");
    demand(options.late_ms >= 0 && options.late_ms <= kMostLateMs,
           fmt::format("--late-ms: must be 0 to {}", kMostLateMs));
    demand(options.in_flight > 0 && options.in_flight <= kMostInFlight,
           fmt::format("--in-flight: must be 1 to {}", kMostInFlight));
    demand(options.server_port > 0, "--server-port: must be 1 to 65535");
    validate_targets(options);
    validate_source_mode(options);
    parse_share(options.sample_sources);
    parse_prefixes(options.skip_sources);
    validate_generator(options);
    validate_pace(options);
    validate_span(options);
    validate_hedge(options);
    validate_transport(options);
}

} // namespace reprise::controller
