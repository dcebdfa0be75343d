#include "controller/check.hh"

#include "controller/options.hh"
#include "controller/selection.hh"
#include "controller/timetable.hh"
#include "controller/trace_feed.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/trace_time.hh"
#include "core/rules/engine/chain.hh"
#include "core/trace/extent.hh"
#include "core/trace/feed.hh"
#include "core/trace/losses.hh"
#include "core/tree/fanout.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

double seconds(Nanoseconds from, Nanoseconds to) { // a text file may hold any times
    return (static_cast<double>(to) - static_cast<double>(from)) / 1e9;
}

/// Reads the beginning of what can be played. Throws Error where nothing can.
trace::Extent look_at_trace(const Options& options, const Servers& servers) {
    trace::Feed input(options.trace,
                      {.ports = options.replay.ports, .closes = !options.rules.rules.empty()}, 1);
    rules::Chain rules(options.rules);
    Selection selection(options, servers);
    Span span(TraceTime::parse(options.replay.from), TraceTime::parse(options.replay.until));
    trace::Sample sample;
    FeedState seen;
    Nanoseconds first = 0;
    Nanoseconds before = 0; ///< the time of the query played last
    const bool ended = rules.each(input, [&](const Query& query) {
        if (query.is_close()) {
            return true;
        }
        if (query.is_response()) {
            ++seen.responses;
            return sample.wants_more();
        }
        if (seen.read == 0) {
            first = query.time;
            span.set_first(first);
        }
        seen.beyond = span.after(query.time);
        if (seen.beyond) {
            return false;
        }
        ++seen.read;
        Query judged = query;
        const Skip reason = span.before(query.time) ? Skip::kFrom : selection.judge(judged);
        if (reason == Skip::kNone) {
            before = sample.any() ? before : query.time;
            demand_no_gap(options, seconds(first, before), seconds(before, query.time));
            before = query.time;
            sample.add(query.time, input.share_read());
        } else {
            seen.skipped.add(reason);
        }
        return sample.wants_more();
    });
    if (ended || seen.beyond) {
        sample.end();
    }
    if (sample.any()) {
        return sample.extent(span.end());
    }
    seen.packets = input.packets();
    seen.trouble = input.end().trouble;
    seen.counters = input.counters();
    seen.rules = rules.counts();
    throw Error(no_queries(options, seen));
}

} // namespace

std::string no_queries(const Options& options, const FeedState& feed) {
    const Settings& replay = options.replay;
    if (feed.beyond && feed.skipped.of(Skip::kFrom) == feed.read) {
        return fmt::format(
            "no query of {} lies {}{}{}before replay.until {}; change them, or leave them out",
            options.trace, replay.from.empty() ? "" : "at or after replay.from ", replay.from,
            replay.from.empty() ? "" : " and ", replay.until);
    }
    if (feed.read > 0 && feed.skipped.of(Skip::kFrom) == feed.read) {
        return fmt::format(
            "no query of {} lies at or after replay.from {}; change it, or leave it out",
            options.trace, replay.from);
    }
    if (feed.read > 0) {
        const std::string lost =
            trace::losses_suffix(feed.counters, feed.of_trace() + feed.responses);
        std::vector<std::string> reasons;
        for (const auto& [reason, count] : feed.skipped.named()) {
            reasons.push_back(fmt::format("{} {}", reason, count));
        }
        return fmt::format(
            "none of the {} queries of {} can be sent ({}{}); give the server an address of their "
            "family, another replay.transport, replay.all_opcodes, or leave out what skips them",
            feed.read, options.trace.empty() ? feed.description : options.trace,
            fmt::join(reasons, ", "), lost);
    }
    if (feed.of_trace() > 0) {
        return fmt::format("the rules leave none of the {} queries of {}; change them",
                           feed.of_trace(), options.trace);
    }
    return fmt::format(
        "no DNS queries to replay in {} ({} packets, {} queries, {} responses{}{}{}); "
        "is it a DNS capture, and its port one of replay.ports?",
        options.trace, feed.packets, feed.read, feed.responses, feed.trouble.empty() ? "" : "; ",
        feed.trouble, trace::unread_suffix(feed.counters, feed.responses));
}

std::optional<trace::Extent> check(const Options& options) {
    tree::parse_peers("--distributor", options.distributors);
    const Servers servers = parse_servers(options.servers, options.server_port);
    const rules::Chain rules(options.rules); // throws
    if (options.check == "trace" && options.generate.empty()) {
        return look_at_trace(options, servers);
    }
    return std::nullopt;
}

} // namespace reprise::controller
