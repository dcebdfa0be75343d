#include "mutator/commands.hh"

#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/json.hh"
#include "core/base/log.hh"
#include "core/rules/engine/catalog.hh"
#include "core/trace/feed.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/losses.hh"
#include "core/trace/pairs.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/result_file.hh"
#include "mutator/digests/digests.hh"
#include "mutator/info/trace_info.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace reprise::mutator {
namespace {

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
        progress.tick(++messages);
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
    std::optional<OutputFile> json_file;
    if (!options.json_file.empty()) {
        json_file.emplace(options.json_file, "--json-file");
    }
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
    if (json_file) {
        json_file->write(info_json(file, figures) + "\n");
        json_file->finish();
    }
    print_line(options.json ? info_json(file, figures) + "\n" : info_text(file, figures));
    return status_of(options.trace, feed.end().trouble, "counted");
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
    check_interrupt();
    pairer.finish();
    if (pairer.counts().queries == 0) {
        throw Error(no_queries(options.trace, feed, pairer.counts().responses));
    }
    writer.finish();
    path.commit();
    print_line(answers_json(options, pairer.counts(), feed) + "\n");
    return status_of(options.trace, feed.end().trouble, "counted");
}

namespace {

void add_ports(Command& command, std::vector<std::uint16_t>& ports) {
    command.add_option("--port", ports, "DNS port in the trace, on either end; may be repeated")
        .in_range(1, 65'535)
        .show_default();
}

void add_trace(Command& command, std::string& trace) {
    command.add_option("TRACE", trace, "Trace of any form, plain or gz, bz2, xz, zst, lz4")
        .required();
}

void add_info(Command& app, InfoOptions& options) {
    Command command = app.add_subcommand(
        "info",
        "Says what a trace holds: counts, rate over time, sources and their skew, names, types, "
        "EDNS, retransmits, response times, round trips of TCP handshakes");
    command
        .add_option(
            "TRACE", options.trace,
            "Trace: pcap, pcapng, text, stream, fsdb text, dnsperf queries, dnstap or C-DNS, "
            "known by content; plain or gz, bz2, xz, zst, lz4; - for standard input")
        .required();
    command.add_flag("--json", options.json, "One JSON object instead of text");
    command.add_option("--json-file", options.json_file, "Write the JSON object to a file as well");
    add_ports(command, options.ports);
    command.footer(
        "Quantiles of times are within 0.1 %. Memory grows only with distinct sources (about 64 "
        "bytes each)\nand with the queries of 10 s of trace that wait for a response. Names are "
        "counted exactly up to 65,536 of\nthem; beyond, counts may be too low by one in 32,768 "
        "queries, and the output says by how many.\n"
        "Exit status: 0 read whole; 1 cut, corrupt, unreadable or without a query; 2 usage.\n\n"
        "Example: reprise-mutator info root.pcap.xz");
}

void add_answers(Command& app, AnswersOptions& options) {
    Command command = app.add_subcommand(
        "answers", "Writes every query of a trace with its recorded response, for comparison");
    add_trace(command, options.trace);
    command.add_option("-o,--output", options.output, "File to write (.ra)").required();
    add_ports(command, options.ports);
    command
        .add_option("--window-s", options.window_s,
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
}

void add_digests(Command& app, DigestsOptions& options) {
    Command command = app.add_subcommand(
        "digests", "Writes numbers that tell which answers are equal or of one kind");
    command.add_option("FILE.ra", options.answers, "Answers of a replay or of a trace").required();
    command.add_option("-o,--output", options.output, "File to write").required();
    command.add_option("--origin", options.origin, "Origin of the served zone");
    command
        .add_option("--labels", options.labels,
                    "Labels at the end of a name below the origin that count")
        .show_default();
    command
        .add_option("--seed", options.seed,
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
}

const std::string kRuleFile = "rules";
constexpr unsigned kMostJobs = 256;

void add_files(Command& command, MutateLine& line) {
    MutateOptions& options = line.options;
    command
        .add_option("IN", options.inputs,
                    "Traces, of any form that info reads, known by content; - for standard input. "
                    "Several are merged by time")
        .required();
    command.add_option("-o,--output", options.output, "File to write, - for standard output")
        .required();
    command
        .add_option("--to", line.form,
                    "Form to write; else by the output's ending: .pcap, .tsv or .txt, .rps")
        .one_of({"pcap", "text", "stream"});
    command
        .add_option("--port", options.ports, "DNS port in captures, on either end; may be repeated")
        .in_range(1, 65'535)
        .allow_extra_args(false)
        .show_default();
    command.add_option("--jobs", options.jobs, "Threads; the output is the same for any number")
        .in_range(1U, kMostJobs)
        .show_default();
    command
        .add_option(
            "--check", options.check,
            "Write nothing: look at the rules, and with trace also for a query in each input")
        .one_of({"options", "trace"});
    command.add_option("--report", options.report, "File for what was done, as JSON");
}

void add_rules(Command& command, MutateLine& line) {
    const std::string group = "Rules, applied in the order given";
    command
        .add_option("--rules", line.rules[kRuleFile],
                    "TOML file of rules, put in at this place; may be repeated")
        .type_name("FILE")
        .allow_extra_args(false)
        .group(group);
    for (const rules::RuleKind& kind : rules::rule_kinds()) {
        command.add_option("--" + kind.name, line.rules[kind.name], kind.help)
            .type_name("KEY=VALUE,...")
            .allow_extra_args(false)
            .group(group);
        if (!kind.older.empty()) {
            command.add_option("--" + kind.older, line.rules[kind.older], kind.help)
                .allow_extra_args(false)
                .hidden();
        }
    }
    command.add_option("--seed", line.options.rules.settings.seed, "Of what rules draw at random")
        .show_default();
    command
        .add_option("--malformed", line.malformed,
                    "Messages that a rule cannot parse: kept as they are, or dropped")
        .one_of({"keep", "drop"})
        .show_default();
}

/// The rules in the order of the command line.
void collect_rules(const Command& command, const MutateLine& line, rules::RuleSet& set) {
    std::map<std::string, size_t> used;
    for (const std::string& name : command.parse_order()) {
        const auto values = line.rules.find(name);
        if (values == line.rules.end()) {
            continue;
        }
        const std::string& value = values->second.at(used[name]++);
        if (name == kRuleFile) {
            rules::read_rule_file(value, set);
        } else {
            set.rules.push_back(rules::parse_rule_option(name, value));
        }
    }
}

void add_mutate(Command& app, MutateLine& line) {
    Command command = app.add_subcommand(
        "mutate", "Changes traces by rules: one or several in any form, one out");
    add_files(command, line);
    add_rules(command, line);
    command.footer(
        "Responses are left out. Every rule also takes share=PERCENT, by=query|source and filters: "
        "where.type=, where.name=SUFFIX,\nwhere.source=PREFIX, where.destination=PREFIX, "
        "where.transport=, where.from=, where.until=, where.edns=on|off, where.do=on|off,\n"
        "where.flags=, where.opcode=.\n"
        "Exit status: 0 clean; 1 an input was cut or damaged (what was good is written), or the "
        "run failed; 2 usage.\n\n"
        "Example: reprise-mutator mutate root.pcap.xz -o tcp.rps --transport tcp\n"
        "Example: reprise-mutator mutate root.pcap -o half.pcap --edns do=on,share=50 --speed 2\n"
        "Example: reprise-mutator mutate root.pcap --to stream -o - | reprise-controller - ...");
}

void add_reduce(Command& app, ReduceOptions& options) {
    Command command = app.add_subcommand(
        "reduce", "Leaves of a capture only what a replay needs: pcap, raw IP, nanoseconds");
    add_trace(command, options.trace);
    command
        .add_option("-o,--output", options.output, "File to write (.pcap), - for standard output")
        .required();
    add_ports(command, options.ports);
    command.footer(
        "Keeps the queries over UDP, and the TCP segments and fragments that make sense only with "
        "others, of which\nsome may lie in the next file: mutate makes the same of reduced "
        "captures as of the captures themselves.\n\n"
        "Example: reprise-mutator reduce hour-13.pcap.xz -o hour-13.pcap");
}

void add_rtts(Command& app, RttsOptions& options) {
    Command command = app.add_subcommand(
        "rtts", "Writes the round trip of every source that has one, as a table for a delay line");
    add_trace(command, options.trace);
    command.add_option("-o,--output", options.output, "File to write, - for standard output")
        .required();
    add_ports(command, options.ports);
    command
        .add_option_function(
            "--rules", [&](const std::string& path) { rules::read_rule_file(path, options.rules); },
            "TOML file of rules that change the trace before; may be repeated")
        .type_name("FILE")
        .trigger_on_parse();
    command.footer(
        "Lines ADDRESS rtt_ms, from the column rtt of the text form or the same in the stream "
        "form; other forms have\nnone. Where a source has several, its first counts.\n\n"
        "Example: reprise-mutator rtts trace.txt -o rtts.tsv");
}

} // namespace

MutateOptions mutate_options(const Command& app, const MutateLine& line) {
    MutateOptions options = line.options;
    options.form =
        line.form.empty() ? trace::form_of(options.output) : trace::form_named(line.form);
    const Command command = app.get_subcommand("mutate");
    const std::uint64_t seed = options.rules.settings.seed;
    collect_rules(command, line, options.rules);
    // What the command line says wins over rule files.
    if (command.count("--seed") > 0) {
        options.rules.settings.seed = seed;
    }
    if (command.count("--malformed") > 0) {
        options.rules.settings.drop_malformed = line.malformed == "drop";
    }
    return options;
}

void add_commands(Command& app, CommandLine& line) {
    app.require_subcommand(1);
    app.column_width(34);
    add_info(app, line.info);
    add_answers(app, line.answers);
    add_digests(app, line.digests);
    add_mutate(app, line.mutate);
    add_reduce(app, line.reduce);
    add_rtts(app, line.rtts);
    add_synth(app, line.synth, line.synth_output);
}

int run_command(const Command& app, const CommandLine& line) {
    if (app.got_subcommand("info")) {
        demand_trace(line.info.trace);
        return run_info(line.info);
    }
    if (app.got_subcommand("answers")) {
        demand_trace(line.answers.trace);
        return run_answers(line.answers);
    }
    if (app.got_subcommand("digests")) {
        demand_trace(line.digests.answers);
        return run_digests(line.digests);
    }
    if (app.got_subcommand("mutate")) {
        return run_mutate(mutate_options(app, line.mutate));
    }
    if (app.got_subcommand("reduce")) {
        demand_trace(line.reduce.trace);
        return run_reduce(line.reduce);
    }
    if (app.got_subcommand("rtts")) {
        demand_trace(line.rtts.trace);
        return run_rtts(line.rtts);
    }
    return run_synth(line.synth, line.synth_output);
}

} // namespace reprise::mutator
