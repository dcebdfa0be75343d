#include "controller/controller.hh"
#include "controller/options.hh"
#include "controller/selection.hh"
#include "controller/trace_feed.hh"
#include "core/base/host.hh"
#include "core/base/json.hh"
#include "core/base/text.hh"
#include "core/rules/engine/chain.hh"
#include "core/trace/losses.hh"
#include "core/tree/fanout.hh"
#include "core/wire/counts.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/settings.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::controller {
namespace {

/// Of the queries sent. Where programs share a busy processor, one in a hundred is late, and the
/// first of a short run; where one in ten is, nothing can be said of times.
constexpr double kMostLate = 0.10;

std::string how_none_was_sent(const Counts& counts) {
    std::vector<std::string> ends;
    const auto add = [&](std::uint64_t count, const char* what) {
        if (count > 0) {
            ends.push_back(fmt::format("{} {}", count, what));
        }
    };
    add(counts.connection_failed, "failed with their connections");
    add(counts.send_failed, "could not be sent");
    add(counts.skipped, "were skipped");
    return fmt::format("no query reached the server: {}", joined(ends, ", "));
}

void judge_lateness(Report& report, double late_ms) {
    const Counts& counts = report.counts;
    const double share = static_cast<double>(counts.sent_late) / static_cast<double>(counts.sent);
    const std::string what =
        fmt::format("{} of {} queries ({:.3g}%) were sent over {:g} ms after their time",
                    counts.sent_late, counts.sent, share * 100, late_ms);
    (share > kMostLate ? report.because : report.warnings).push_back(what);
}

Json report_json(const wire::QuerierReport& report) {
    return {{"host", report.host()},
            {"querier", report.querier()},
            {"clean", report.clean()},
            {"because", report.because()},
            {"assigned", report.assigned()},
            {"lost", report.lost()},
            {"counts", fields_json(read_counts(report.counts()))}};
}

/// Queries lost below one child. All that has not ended where the child is lost, or ended early
/// while the run went on; in an aborted run only what its lost queriers had: the rest was not sent
/// because of the abort.
std::uint64_t lost_below(const tree::Child& child, bool aborted) {
    if (child.lost) {
        return child.assigned -
               std::min(child.assigned, read_counts(child.status.counts()).ended());
    }
    std::uint64_t lost = 0;
    std::uint64_t done = 0;
    for (const auto& report : child.reports) {
        const std::uint64_t ended = read_counts(report.counts()).ended();
        done += ended;
        lost += report.lost() ? report.assigned() - std::min(report.assigned(), ended) : 0;
    }
    return aborted ? lost : child.assigned - std::min(child.assigned, done);
}

Json child_json(const tree::Child& child, bool aborted) {
    const auto offset = [](const tree::ClockSample& one) {
        return Json{one.when, one.offset, one.round_trip};
    };
    Json facts = Json::object();
    for (const auto& [key, value] : child.hello.facts()) {
        facts[key] = value;
    }
    return {{"name", child.name},
            {"address", child.address},
            {"queriers", child.hello.queriers()},
            {"assigned", child.assigned},
            {"lost", lost_below(child, aborted)},
            {"lost_because", child.lost_because},
            {"same_clock", child.same_clock},
            {"rtt_ns", child.clock.best().round_trip},
            {"offset_ns", child.same_clock ? 0 : child.clock.best().offset},
            {"measured_offset_ns", child.clock.best().offset},
            {"rtt_end_ns", child.clock.latest().round_trip},
            {"offset_end_ns", child.same_clock ? 0 : child.clock.latest().offset},
            {"offsets", list_of(child.clock.series(), offset)},
            {"facts", facts},
            {"reports", list_of(child.reports, report_json)}};
}

Counts sum_of(const tree::Children& children) {
    Counts sum;
    for (const auto& child : children) {
        if (child->lost) {
            sum += read_counts(child->status.counts());
        }
        for (const auto& report : child->reports) {
            sum += read_counts(report.counts());
        }
    }
    return sum;
}

std::uint64_t sum_of(const std::map<std::string, std::uint64_t>& counts) {
    const auto all = counts | std::views::values;
    return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

/// One end for every query: what went missing without a lost host was left unsent by an abort, or
/// is a fault of ours.
void account(Report& report, const FeedState& feed, const Outcome& outcome) {
    if (outcome.cut_off) {
        report.skipped[skip_name(Skip::kDuration)] = feed.read - feed.skipped.sum() - report.handed;
    }
    const std::uint64_t known = sum_of(report.skipped) + report.counts.ended() + report.lost;
    if (known < feed.read && outcome.aborted) {
        report.skipped["aborted"] = feed.read - known;
    } else if (known != feed.read) {
        report.because.push_back(fmt::format(
            "the sums do not match: {} queries read, {} accounted for", feed.read, known));
    }
}

void judge(Report& report, const FeedState& feed, const tree::Children& children) {
    for (const auto& child : children) {
        for (const auto& querier : child->reports) {
            if (!querier.clean()) {
                report.because.push_back(fmt::format("querier {}/{}: {}", querier.host(),
                                                     querier.querier(), querier.because()));
            }
        }
    }
    if (report.lost > 0) {
        report.because.push_back(
            fmt::format("{} queries have no known end: their host was lost", report.lost));
    }
    if (!feed.trouble.empty()) {
        report.because.push_back("trace: " + feed.trouble);
    }
}

/// What a reader of the results should know of the reading, one line each.
std::vector<std::string> reader_notes(const FeedState& feed) {
    std::vector<std::string> notes = trace::losses(feed.counters, feed.of_trace() + feed.responses);
    if (feed.clock_steps > 0) {
        notes.push_back(fmt::format(
            "clock_steps_back {}: the trace's time goes back by more than max_lateness_s, and the "
            "replay went on from the time before; if its packets are out of order, sort them "
            "(reordercap, mergecap)",
            feed.clock_steps));
    }
    return notes;
}

/// By number; those that were not seen are left out.
Json rcodes_json(const Rcodes& rcodes) {
    Json out = Json::object();
    for (size_t rcode = 0; rcode < rcodes.size(); ++rcode) {
        if (rcodes.at(rcode) > 0) {
            out[std::to_string(rcode)] = rcodes.at(rcode);
        }
    }
    return out;
}

/// How the trace was played, as given.
Json options_json(const Options& options) {
    auto out = settings_json(options.replay);
    out["generate"] = options.generate;
    out["generate_sources"] = options.generate_sources;
    out["generate_rd"] = options.generate_rd;
    return out;
}

Json whole_json(const Report& report, const Options& options, const FeedState& feed,
                const tree::Children& children, const Outcome& outcome) {
    const auto below =
        list_of(children, [&](const auto& child) { return child_json(*child, outcome.aborted); });
    Json queries = fields_json(report.counts);
    queries["read"] = feed.read;
    queries["handed"] = report.handed;
    queries["skipped"] = report.counts.skipped + sum_of(report.skipped);
    queries["lost"] = report.lost;
    const OwnUse use = own_use();
    return {{"schema", 1},
            {"run", options.run},
            {"clean", report.because.empty()},
            {"because", report.because},
            {"warnings", report.warnings},
            {"trace", options.trace},
            {"options", options_json(options)},
            {"reader",
             {{"description", feed.description},
              {"packets", feed.packets},
              {"queries", feed.read},
              {"responses", feed.responses},
              {"rcodes", rcodes_json(feed.rcodes)},
              {"without_rd", feed.without_rd},
              {"laps", feed.laps},
              {"trouble", text_or_null(feed.trouble)},
              {"counters", feed.counters},
              {"clock_steps_back", feed.clock_steps},
              {"notes", reader_notes(feed)}}},
            {"rules", rules::counts_json(options.rules, feed.rules)},
            {"queries", queries},
            {"skipped", report.skipped},
            {"sources", feed.sources},
            {"source_table_bytes", feed.source_table_bytes},
            {"start",
             {{"mono_ns", outcome.start.mono},
              {"real_ns", outcome.start.real},
              {"trace_first_ns", outcome.start.trace_first},
              {"trace_last_ns", outcome.start.trace_last}}},
            {"children", below},
            {"imbalance", tree::imbalance_of(children)},
            {"cpu_s", use.cpu_s},
            {"max_rss_bytes", use.max_rss_bytes},
            {"duration_s", static_cast<double>(outcome.duration) / 1e9}};
}

} // namespace

std::string Report::because_text() const { return joined(because, "; "); }

Report compile_report(const Options& options, const FeedState& feed, const tree::Children& children,
                      const Outcome& outcome) {
    Report report;
    report.because = outcome.because;
    report.counts = sum_of(children);
    report.skipped = feed.skipped.named();
    report.handed = tree::assigned_of(children);
    for (const auto& child : children) {
        report.lost += lost_below(*child, outcome.aborted);
    }
    account(report, feed, outcome);
    judge(report, feed, children);
    if (!outcome.aborted) { // what an aborted run had not done yet is no fault of its own
        judge_counts(report, options.replay.late_ms);
    }
    report.json = json_text(by_key(whole_json(report, options, feed, children, outcome)), 1);
    return report;
}

bool holds_run(const std::string& folder) {
    constexpr std::string_view kStart = "\"mono_ns\":"; // no other key ends so; 0: never started
    std::ifstream file(folder + "/controller.json");
    const std::string told(std::istreambuf_iterator<char>(file), {});
    const size_t at = told.find(kStart);
    const size_t value =
        at == std::string::npos ? at : told.find_first_not_of(' ', at + kStart.size());
    return value != std::string::npos && told[value] != '0';
}

void judge_counts(Report& report, double late_ms) {
    const Counts& counts = report.counts;
    if (counts.received > 0 && counts.sent == 0) {
        report.because.push_back(how_none_was_sent(counts));
    } else if (counts.sent > 0 && counts.answered == 0) {
        report.because.push_back(
            fmt::format("the server answered none of {} queries sent", counts.sent));
    }
    if (counts.sent_late > 0 && counts.sent > 0) {
        judge_lateness(report, late_ms);
    }
}

} // namespace reprise::controller
