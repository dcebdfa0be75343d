#include "mutator/command_line.hh"

#include "core/base/command_line.hh"
#include "core/base/fd.hh"
#include "mutator/commands.hh"
#include "mutator/digests/digests.hh"
#include "mutator/info/rtts.hh"
#include "mutator/mutate.hh"
#include "mutator/pipeline/reduce.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::mutator {
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
        "A header of 40 bytes (\"RPRDIG1\", the seed), then a row of 40 bytes for each record, "
        "little-endian:\n64-bit numbers of the query's bytes, "
        "the reply's bytes\n(both without the id), what the reply says whatever the order and "
        "case of its records, and where the name\nasked is in the zone; 16 bits each of the "
        "reply's flags, answers, authority records and size.\n`reprise compare` reads them.\n\n"
        "Example: reprise-mutator digests root.ra -o root.digests --origin . --labels 1");
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
    command.footer(
        "Lines ADDRESS rtt_ms, from the column rtt of the text form or the same in the stream "
        "form; other forms have\nnone. Where a source has several, its first counts.\n\n"
        "Example: reprise-mutator rtts trace.txt -o rtts.tsv");
}

} // namespace

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
