#include "mutator/commands.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/json.hh"
#include "core/base/progress.hh"
#include "core/trace/feed.hh"
#include "core/trace/losses.hh"
#include "core/trace/pairs.hh"
#include "core/trace/reassembly/handshake.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"
#include "core/wire/result_file.hh"
#include "mutator/info/trace_info.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <ios>
#include <string>
#include <system_error>

namespace reprise::mutator {
namespace {

FileFacts facts_of(const std::string& path, const trace::Feed& feed, std::uint64_t messages) {
    return {.path = path,
            .description = feed.end().description,
            .packets = feed.packets(),
            .counters = feed.counters(),
            .losses = trace::losses(feed.counters(), messages),
            .trouble = feed.end().trouble};
}

/// A cut trace is reported on standard error as well, and makes the exit status 1.
int status_of(const std::string& path, const trace::Feed& feed) {
    if (feed.end().trouble.empty()) {
        return 0;
    }
    fmt::print(stderr, "reprise-mutator: {}: {}; what was read before is counted\n", path,
               feed.end().trouble);
    return 1;
}

void print_line(const std::string& text) {
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
        throw SystemError("write standard output");
    }
}

/// Keeps the queries numbered and the replies found; nothing else knows the file's form.
RaWriter open_answers(const OutputPath& path, const std::string& json) {
    try {
        return {path.working(), json};
    } catch (const std::system_error& error) {
        throw_unwritable(path.final_path(), error.code().value());
    }
}

void write_json(const std::string& path, const std::string& json) {
    OutputPath output(path);
    std::ofstream file(output.working(), std::ios::binary);
    file << json;
    file.close();
    if (!file) {
        throw_unwritable(path, errno);
    }
    output.commit();
}

std::string answers_json(const AnswersOptions& options, const trace::PairerCounts& counts,
                         const trace::Feed& feed) {
    const auto lost = trace::losses(feed.counters(), counts.queries + counts.responses);
    return json_text({{"schema", 1},
                      {"trace", options.trace},
                      {"answers", options.output},
                      {"queries", counts.queries},
                      {"responses", counts.responses},
                      {"matched", counts.matched},
                      {"unanswered", counts.unanswered},
                      {"unmatched_responses", counts.unmatched_responses},
                      {"early_responses", counts.early_responses},
                      {"closed_early", counts.closed_early},
                      {"losses", lost},
                      {"trouble", text_or_null(feed.end().trouble)}});
}

void read_all(trace::Feed& feed, const char* what, auto&& take) {
    Progress progress(what, check_interrupt);
    std::uint64_t messages = 0;
    feed.each([&](const Query& query) {
        take(query);
        progress.tick(++messages, feed.share_read());
        return true;
    });
}

} // namespace

std::string no_queries(const std::string& path, const trace::Feed& feed, std::uint64_t responses) {
    return fmt::format("{} holds no DNS query ({} packets, {} responses{}{}{}); check that it is "
                       "the right file and give --port N for DNS on another port",
                       path, feed.packets(), responses, feed.end().trouble.empty() ? "" : ", ",
                       feed.end().trouble, trace::unread_suffix(feed.counters(), responses));
}

int run_info(const InfoOptions& options) {
    TraceInfo info;
    trace::Feed feed(options.trace,
                     {.ports = options.ports,
                      .handshakes = [&info](const trace::TcpHandshake& t) { info.add(t); }});
    read_all(feed, "info", [&](const Query& query) { info.add(query); });
    info.finish();
    const TraceFigures& figures = info.figures();
    if (figures.all.queries == 0) {
        throw Error(no_queries(options.trace, feed, figures.all.responses));
    }
    const FileFacts file =
        facts_of(options.trace, feed, figures.all.queries + figures.all.responses);
    if (!options.json_file.empty()) {
        write_json(options.json_file, info_json(file, figures) + "\n");
    }
    print_line(options.json ? info_json(file, figures) + "\n" : info_text(file, figures));
    return status_of(options.trace, feed);
}

int run_answers(const AnswersOptions& options) {
    trace::Feed feed(options.trace, {.ports = options.ports});
    OutputPath path(options.output);
    RaWriter writer = open_answers(path, json_text({{"kind", "trace"}, {"trace", options.trace}}));
    trace::Pairer pairer({.window = static_cast<Nanoseconds>(options.window_s * 1e9)},
                         [&](const trace::Exchange& exchange) {
                             writer.append({.sequence = exchange.sequence,
                                            .time = exchange.reply_time,
                                            .query = exchange.query,
                                            .reply = exchange.reply});
                         });
    read_all(feed, "answers", [&](const Query& query) { pairer.add(query); });
    pairer.finish();
    if (pairer.counts().queries == 0) {
        throw Error(no_queries(options.trace, feed, pairer.counts().responses));
    }
    writer.finish();
    path.commit();
    print_line(answers_json(options, pairer.counts(), feed) + "\n");
    return status_of(options.trace, feed);
}

} // namespace reprise::mutator
