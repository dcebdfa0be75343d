// What the parser of the command line cannot check: ranges, and options that need or exclude
// others.
#include "controller/generator.hh"
#include "controller/moment.hh"
#include "controller/options.hh"
#include "controller/timetable.hh"
#include "core/error.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
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
    demand(
        text.empty() || Moment::parse(text),
        fmt::format("{} {}: not a moment; give seconds from the trace's first query, seconds since "
                    "the epoch or RFC 3339 like 2016-10-06T13:55:51.5Z",
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
    demand(options.duration_s >= 0 && options.duration_s < 1e8,
           "--duration-s: must be 0 to 100000000 seconds");
    const bool ends = options.limit > 0 || options.duration_s > 0;
    demand(options.loop > 0 || ends,
           "--loop 0 plays for ever; give --limit or --duration-s as well");
    demand(options.loop == 1 || std::filesystem::is_regular_file(options.trace),
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

void validate_hedge(const Options& options) {
    parse_hedge_peers(options.peers, options.server_port);
    demand(options.hedge_ms >= 0 && options.hedge_ms < options.timeout_s * 1e3,
           "--hedge: must be above 0 and below --timeout-s, in milliseconds");
    demand((options.hedge_ms > 0) == !options.peers.empty(),
           "--hedge and --peers need each other; give both");
}

} // namespace

void validate(const Options& options) {
    demand_time(options.window_s, "--window-s");
    demand_time(options.timeout_s, "--timeout-s");
    demand_time(options.idle_timeout_s, "--idle-timeout-s");
    demand_time(options.max_lateness_s, "--max-lateness-s");
    demand(options.in_flight > 0, "--in-flight: must be at least 1");
    demand(options.server_port > 0, "--server-port: must be 1 to 65535");
    constexpr std::array kModes{"ports", "addresses", "mapped", "packet"};
    demand(std::ranges::find(kModes, options.source_mode) != kModes.end(),
           fmt::format("--source-mode {}: give ports, addresses, mapped or packet",
                       options.source_mode));
    parse_share(options.sample_sources);
    parse_prefixes(options.skip_sources);
    validate_generator(options);
    validate_pace(options);
    validate_span(options);
    validate_hedge(options);
}

} // namespace reprise::controller
