#include "controller/check.hh"

#include "controller/options.hh"
#include "controller/selection.hh"
#include "controller/span.hh"
#include "controller/trace_feed.hh"
#include "core/base/error.hh"
#include "core/base/trace_time.hh"
#include "core/trace/extent.hh"
#include "core/trace/losses.hh"
#include "core/trace/reader.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

/// Why a query is left out. Throws where the span holds none at all.
Skip judge(const Options& options, Selection& selection, Span& span, const trace::Message& message,
           bool first) {
    if (first) {
        span.set_first(message.time);
    }
    if (span.after(message.time)) {
        throw Error(
            fmt::format("no query of {} lies {}{}{}before --until {}; change them, or leave "
                        "them out",
                        options.trace, options.from.empty() ? "" : "at or after --from ",
                        options.from, options.from.empty() ? "" : " and ", options.until));
    }
    return span.before(message.time) ? Skip::kFrom : selection.judge(message);
}

/// Reads the beginning of what can be played. Throws Error where nothing can.
trace::Extent look_at_trace(const Options& options, const Servers& servers) {
    trace::Reader input(options.trace, {.ports = options.ports});
    Selection selection(options, servers);
    Span span(TraceTime::parse(options.from), TraceTime::parse(options.until));
    trace::Sample sample;
    FeedState seen;
    for (trace::Message message; !sample.any() || !sample.enough();) {
        if (!input.next(message) ||
            (sample.any() && !message.response && span.after(message.time))) {
            sample.end();
            break;
        }
        if (message.response) {
            ++seen.responses;
            sample.add_response(message.bytes.size());
            continue;
        }
        const Skip reason = judge(options, selection, span, message, seen.read++ == 0);
        if (reason == Skip::kNone) {
            sample.add_query(message.time, message.bytes.size(), input.share_read());
        } else {
            seen.skipped.add(reason);
        }
    }
    if (sample.any()) {
        return sample.extent(span.end());
    }
    seen.packets = input.packets();
    seen.trouble = input.trouble();
    seen.counters = input.counters();
    throw Error(no_queries(options, seen));
}

} // namespace

std::string no_queries(const Options& options, const FeedState& feed) {
    const std::string lost = trace::losses_suffix(feed.counters, feed.read + feed.responses);
    if (feed.read > 0) {
        std::vector<std::string> reasons;
        for (const auto& [reason, count] : feed.skipped.named()) {
            reasons.push_back(fmt::format("{} {}", reason, count));
        }
        return fmt::format(
            "none of the {} queries of {} can be sent ({}{}); give the server an address of their "
            "family (--server), another --transport, --all-opcodes, or leave out what skips them",
            feed.read, options.trace, fmt::join(reasons, ", "), lost);
    }
    return fmt::format(
        "no DNS queries to replay in {} ({} packets, {} queries, {} responses{}{}{}); "
        "is it a DNS capture, and its port one of --port?",
        options.trace, feed.packets, feed.read, feed.responses, feed.trouble.empty() ? "" : "; ",
        feed.trouble, lost);
}

std::optional<trace::Extent> check(const Options& options) {
    parse_peers(options.distributors);
    const Servers servers = parse_servers(options.servers, options.server_port);
    if (options.check == "trace" && options.generate.empty()) {
        return look_at_trace(options, servers);
    }
    return std::nullopt;
}

} // namespace reprise::controller
