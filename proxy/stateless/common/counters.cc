#include "proxy/stateless/common/counters.hh"

#include "core/base/clock.hh"
#include "core/base/json.hh"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/common/reasons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::proxy {

namespace {

/// Only the reasons that occurred.
Json by_reason(const ReasonCounts& counts) {
    Json out = Json::object();
    for (size_t i = 0; i < kReasons; ++i) {
        if (counts[i] != 0) {
            out[std::string(kReasonNames[i])] = counts[i];
        }
    }
    return out;
}

/// Null where programs are not timed.
Json run_time(const StatelessOptions& options, Nanoseconds time) {
    return options.timed ? Json(static_cast<double>(time) / double{kSecond}) : Json();
}

void add_counts(Json& out, const Counters& c) {
    out.update({{"syn", c.syn},
                {"syn_ack", c.syn_ack},
                {"handshake_ack", c.handshake_ack},
                {"queries", c.queries},
                {"retransmitted", c.retransmitted},
                {"replies", c.replies},
                {"segments", c.segments},
                {"fin", c.fin},
                {"rst", c.rst},
                {"reset", c.reset},
                {"promoted", by_reason(c.promoted)},
                {"not_promoted", by_reason(c.not_promoted)},
                {"refused_cookies", c.refused_cookies},
                {"waiting", c.waiting},
                {"evictions", c.evictions},
                {"expired", c.expired},
                {"late", c.late},
                {"unsent", c.unsent},
                {"truncated", c.truncated},
                {"malformed", c.malformed},
                {"passed", c.passed},
                {"entries", c.entries},
                {"entries_peak", c.entries_peak},
                {"entries_limit", c.entries_limit},
                {"entry_seconds", static_cast<double>(c.entries_lived) / double{kSecond}},
                {"bytes_per_entry", c.bytes_per_entry},
                {"state_bytes", c.state_bytes},
                {"memory_bytes", c.memory_bytes}});
}

} // namespace

std::string to_json(const Counters& counters, const StatelessOptions& options, Nanoseconds running,
                    double cpu_seconds) {
    Json json{{"schema", 1},
              {"kind", "stateless"},
              {"front", front_name(options.front)},
              {"interface", fmt::format("{}", fmt::join(options.interfaces, ","))},
              {"port", options.port},
              {"promotion", options.front == FrontKind::kBpf && options.promote},
              {"seconds", static_cast<double>(running) / double{kSecond}},
              {"cpu_seconds", cpu_seconds},
              {"in_seconds", run_time(options, counters.in_time)},
              {"out_seconds", run_time(options, counters.out_time)}};
    add_counts(json, counters);
    return json.dump(2) + "\n";
}

std::string_view front_name(FrontKind front) {
    return front == FrontKind::kReference ? "reference" : "bpf";
}

} // namespace reprise::proxy
