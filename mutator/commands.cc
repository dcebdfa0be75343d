#include "mutator/commands.hh"

#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/json.hh"
#include "core/base/log.hh"
#include "core/trace/feed.hh"
#include "core/trace/losses.hh"
#include "core/trace/pairs.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/result_file.hh"
#include "mutator/digests/digests.hh"
#include "mutator/info/trace_info.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace reprise::mutator {
namespace {

struct InfoOptions {
    std::string trace;
    std::vector<std::uint16_t> ports{53};
    bool json = false;
};

struct AnswersOptions {
    TraceCommand files;
    double window_s = 10; ///< trace time a query waits for its response
};

void add_ports(Command& command, std::vector<std::uint16_t>& ports) {
    command.add_option("--port", ports, "DNS port in the trace, on either end; may be repeated")
        .in_range(1, 65'535)
        .show_default();
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

std::string answers_json(const AnswersOptions& options, const trace::PairerCounts& counts,
                         const trace::Feed& feed) {
    const auto lost = trace::losses(feed.counters(), counts.queries + counts.responses);
    return json_text({{"schema", 1},
                      {"trace", options.files.trace},
                      {"answers", options.files.output},
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
        progress.tick(++messages);
        return true;
    });
}

int run_info(const InfoOptions& options) {
    demand_trace(options.trace);
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
    const trace::Counters counters = feed.counters();
    const FileFacts file{.path = options.trace,
                         .description = feed.end().description,
                         .packets = feed.packets(),
                         .counters = counters,
                         .losses =
                             trace::losses(counters, figures.all.queries + figures.all.responses),
                         .trouble = feed.end().trouble};
    print_line(options.json ? info_json(file, figures) + "\n" : info_text(file, figures));
    return status_of(options.trace, feed.end().trouble, "counted");
}

int run_answers(const AnswersOptions& options) {
    const std::string& trace = options.files.trace;
    demand_trace(trace);
    trace::Feed feed(trace, {.ports = options.files.ports});
    OutputPath path(options.files.output);
    RaWriter writer = open_answers(path, json_text({{"kind", "trace"}, {"trace", trace}}));
    trace::Pairer pairer({.window = static_cast<Nanoseconds>(options.window_s * 1e9)},
                         [&](const trace::Exchange& exchange) {
                             writer.append({.sequence = exchange.sequence,
                                            .time = exchange.reply_time,
                                            .query = exchange.query,
                                            .reply = exchange.reply});
                         });
    read_all(feed, "answers", [&](const Query& query) { pairer.add(query); });
    check_interrupt();
    pairer.finish();
    if (pairer.counts().queries == 0) {
        throw Error(no_queries(trace, feed, pairer.counts().responses));
    }
    writer.finish();
    path.commit();
    print_line(answers_json(options, pairer.counts(), feed) + "\n");
    return status_of(trace, feed.end().trouble, "counted");
}

void add_info(Command& app, int& status) {
    const auto options = std::make_shared<InfoOptions>();
    Command command = app.add_subcommand(
        "info",
        "Says what a trace holds: counts, rate over time, sources and their skew, names, types, "
        "EDNS, retransmits, response times, round trips of TCP handshakes");
    command
        .add_option(
            "TRACE", options->trace,
            "Trace: pcap, pcapng, text, stream, fsdb text, dnsperf queries, dnstap or C-DNS, "
            "known by content; plain or gz, bz2, xz, zst, lz4; - for standard input")
        .required();
    command.add_flag("--json", options->json, "One JSON object instead of text");
    add_ports(command, options->ports);
    command.footer(
        "Quantiles of times are within 0.1 %. Memory grows only with distinct sources (about 64 "
        "bytes each)\nand with the queries of 10 s of trace that wait for a response. Names are "
        "counted exactly up to 65,536 of\nthem; beyond, counts may be too low by one in 32,768 "
        "queries, and the output says by how many.\n"
        "Exit status: 0 read whole; 1 cut, corrupt, unreadable or without a query; 2 usage.\n\n"
        "Example: reprise-mutator info root.pcap.xz");
    command.callback([options, &status] { status = run_info(*options); });
}

void add_answers(Command& app, int& status) {
    const auto options = std::make_shared<AnswersOptions>();
    Command command = app.add_subcommand(
        "answers", "Writes every query of a trace with its recorded response, for comparison");
    add_files(command, options->files, "File to write (.ra)");
    command
        .add_option("--window-s", options->window_s,
                    "Seconds of trace time a query waits for its response")
        .in_range(0.001, 3600.0)
        .show_default();
    command.footer(
        "A response belongs to the oldest open query with the same addresses, ports (or TCP "
        "connection), id and\nquestion. Queries without a response are written too; responses "
        "without a query are counted.\nPrints the counts as one JSON line. Waiting messages take "
        "at "
        "most 1 GiB.\n\n"
        "Example: reprise-mutator answers root.pcap.xz -o root.ra");
    command.callback([options, &status] { status = run_answers(*options); });
}

void add_digests(Command& app, int& status) {
    const auto options = std::make_shared<DigestsOptions>();
    Command command = app.add_subcommand(
        "digests", "Writes numbers that tell which answers are equal or of one kind");
    command.add_option("FILE.ra", options->answers, "Answers of a replay or of a trace").required();
    command.add_option("-o,--output", options->output, "File to write").required();
    command.add_option("--origin", options->origin, "Origin of the served zone");
    command
        .add_option("--labels", options->labels,
                    "Labels at the end of a name below the origin that count")
        .show_default();
    command
        .add_option("--seed", options->seed,
                    "Seed of the numbers: only those with the same one can be compared")
        .show_default();
    command.footer(
        "A header of 40 bytes (\"RPRDIG2\", the seed), then a row of 56 bytes for each record, "
        "little-endian:\n64 bits each of its sequence number and its place in the file, and of "
        "numbers of the query's bytes, the\nreply's bytes (both without the id), what the reply "
        "says whatever the order and case of its records, and\nwhere the name asked is in the "
        "zone; 16 bits each of the reply's flags, answers, authority records and\nsize. `reprise "
        "compare` and `reprise export` read them.\n\n"
        "Example: reprise-mutator digests root.ra -o root.digests --origin . --labels 1");
    command.callback([options, &status] {
        demand_trace(options->answers);
        status = run_digests(*options);
    });
}

} // namespace

std::string no_queries(const std::string& path, const trace::Feed& feed, std::uint64_t responses) {
    return fmt::format("{} holds no DNS query ({} packets, {} responses{}{}{}); check that it is "
                       "the right file and give --port N for DNS on another port",
                       path, feed.packets(), responses, feed.end().trouble.empty() ? "" : ", ",
                       feed.end().trouble, trace::unread_suffix(feed.counters(), responses));
}

void add_files(Command& command, TraceCommand& files, const char* output) {
    command.add_option("TRACE", files.trace, "Trace of any form, plain or gz, bz2, xz, zst, lz4")
        .required();
    command.add_option("-o,--output", files.output, output).required();
    add_ports(command, files.ports);
}

void add_commands(Command& app, int& status) {
    app.require_subcommand(1);
    app.column_width(34);
    add_info(app, status);
    add_answers(app, status);
    add_digests(app, status);
    add_mutate(app, status);
    add_reduce(app, status);
    add_synth(app, status);
}

} // namespace reprise::mutator
