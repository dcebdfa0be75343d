#include "mutator/command_line.hh"

#include "mutator/commands.hh"
#include "mutator/mutate.hh"
#include "mutator/mutate_options.hh"
#include "mutator/reduce.hh"
#include "mutator/synth_options.hh"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace reprise::mutator {
namespace {

void add_ports(CLI::App& command, std::vector<std::uint16_t>& ports) {
    command.add_option("--port", ports, "DNS port in the trace, on either end; may be repeated")
        ->check(CLI::Range(1, 65'535))
        ->capture_default_str();
}

void add_trace(CLI::App& command, std::string& trace) {
    command.add_option("TRACE", trace, "Capture: pcap or pcapng, plain or gz, bz2, xz, zst, lz4")
        ->required();
}

void add_info(CLI::App& app, InfoOptions& options) {
    CLI::App* command = app.add_subcommand(
        "info",
        "Says what a trace holds: counts, rate over time, sources and their skew, names, types, "
        "EDNS, retransmits, response times, round trips of TCP handshakes");
    add_trace(*command, options.trace);
    command->add_flag("--json", options.json, "One JSON object instead of text");
    command->add_option("--json-file", options.json_file,
                        "Write the JSON object to a file as well");
    add_ports(*command, options.ports);
    command->footer(
        "Quantiles of times are within 0.1 %. Memory grows only with distinct sources (about 64 "
        "bytes each)\nand with the queries of 10 s of trace that wait for a response. Names are "
        "counted exactly up to 65,536 of\nthem; beyond, counts may be too low by one in 32,768 "
        "queries, and the output says by how many.\n"
        "Exit status: 0 read whole; 1 cut, corrupt, unreadable or without a query; 2 usage.\n\n"
        "Example: reprise-mutator info root.pcap.xz");
}

void add_answers(CLI::App& app, AnswersOptions& options) {
    CLI::App* command = app.add_subcommand(
        "answers", "Writes every query of a trace with its recorded response, for comparison");
    add_trace(*command, options.trace);
    command->add_option("-o,--output", options.output, "File to write (.ra)")->required();
    add_ports(*command, options.ports);
    command
        ->add_option("--window-s", options.window_s,
                     "Seconds of trace time a query waits for its response")
        ->check(CLI::Range(0.001, 3600.0))
        ->capture_default_str();
    command->footer(
        "A response belongs to the oldest open query with the same addresses, ports (or TCP "
        "connection), id and\nquestion. Queries without a response are written too; responses "
        "without a query are counted.\nPrints the counts as one JSON line. Waiting messages take "
        "at "
        "most 1 GiB.\n\n"
        "Example: reprise-mutator answers root.pcap.xz -o root.ra");
}

void add_reduce(CLI::App& app, ReduceOptions& options) {
    CLI::App* command = app.add_subcommand(
        "reduce", "Leaves of a capture only what a replay needs: pcap, raw IP, nanoseconds");
    add_trace(*command, options.trace);
    command
        ->add_option("-o,--output", options.output, "File to write (.pcap), - for standard output")
        ->required();
    add_ports(*command, options.ports);
    command->footer(
        "Keeps the queries over UDP, and the TCP segments and fragments that make sense only with "
        "others, of which\nsome may lie in the next file: mutate makes the same of reduced "
        "captures as of the captures themselves.\n\n"
        "Example: reprise-mutator reduce hour-13.pcap.xz -o hour-13.pcap");
}

void add_length(CLI::App& command, SynthOptions& options) {
    command.add_option("--queries", options.queries, "Number of queries")
        ->check(CLI::PositiveNumber)
        ->group("Length and time");
    command
        .add_option("--duration", options.duration_s,
                    "Seconds of trace; 60 where --queries is not given either")
        ->group("Length and time");
    command.add_option("--rate", options.rate_qps, "Mean rate, queries/s")
        ->capture_default_str()
        ->group("Length and time");
    const std::map<std::string, Arrival> arrivals{{"poisson", Arrival::kPoisson},
                                                  {"fixed", Arrival::kFixed}};
    command
        .add_option(
            "--arrival", options.arrival,
            "poisson (default), or fixed: evenly spaced (over TCP a connection's first query "
            "comes a round trip after its turn)")
        ->transform(CLI::CheckedTransformer(arrivals).description("{poisson,fixed}"))
        ->group("Length and time");
    command
        .add_option(
            "--start", options.start_s,
            "Time of the first query, seconds since 1970; 1704067200 (2024-01-01) by default")
        ->group("Length and time");
    command
        .add_option("--seed", options.seed,
                    "The same options and seed give the same bytes on every machine")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str()
        ->group("Length and time");
}

void add_share(CLI::App& command, const char* name, double& share, const char* help) {
    command.add_option(name, share, help)->capture_default_str()->group("Shares, 0 to 1");
}

void add_shares(CLI::App& command, SynthOptions& options) {
    add_share(command, "--ipv6-share", options.ipv6_share,
              "Of the queries, by IPv6; a client keeps its family");
    add_share(command, "--tcp-share", options.tcp_share,
              "Of the queries, by TCP; drawn query by query, from all clients");
    add_share(command, "--edns-share", options.edns_share,
              "Of the queries, with EDNS; a client always has it or never");
    add_share(command, "--do-share", options.do_share,
              "Of the queries with EDNS, with the DO bit; a client's habit too");
    add_share(command, "--junk-share", options.junk_share,
              "Of the queries, for top-level domains that do not exist");
    add_share(command, "--rd-share", options.rd_share,
              "Of the queries, with the RD bit; drawn query by query");
}

void add_content(CLI::App& command, SynthOptions& options) {
    const std::string group = "Content";
    command.add_option("--types", options.types, "Query types with weights")
        ->capture_default_str()
        ->group(group);
    command.add_option("--edns-sizes", options.edns_sizes, "EDNS sizes in bytes with weights")
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--tcp-queries", options.tcp_queries, "Mean number of queries a TCP connection")
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--tld-file", options.tld_file,
                    "Top-level domains: a public suffix list, or names one a line")
        ->capture_default_str()
        ->group(group);
}

void add_addresses(CLI::App& command, SynthOptions& options) {
    const std::string group = "Clients and server";
    command.add_option("--clients", options.clients, "Number of clients; 17 bytes of memory each")
        ->check(CLI::PositiveNumber)
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--zipf", options.zipf,
                    "Exponent of the clients' activity: the n-th asks n^-S as much as the first; 0 "
                    "= all alike")
        ->capture_default_str()
        ->group(group);
    command.add_option("--client-prefix", options.client_prefix, "IPv4 clients' addresses")
        ->capture_default_str()
        ->group(group);
    command.add_option("--client-prefix6", options.client_prefix6, "IPv6 clients' addresses")
        ->capture_default_str()
        ->group(group);
    command.add_option("--server", options.server, "Server's IPv4 address")
        ->capture_default_str()
        ->group(group);
    command.add_option("--server6", options.server6, "Server's IPv6 address")
        ->capture_default_str()
        ->group(group);
}

void add_synth(CLI::App& app, SynthOptions& options, std::string& output) {
    CLI::App* command = app.add_subcommand(
        "synth", "Makes a trace like a root server's: pcap with nanoseconds, raw IP, queries only");
    command->add_option("-o,--output", output, "File to write, - for standard output")->required();
    add_length(*command, options);
    add_shares(*command, options);
    add_content(*command, options);
    add_addresses(*command, options);
    command->footer(
        "Memory does not grow with the trace's length.\n\n"
        "Example: reprise-mutator synth --rate 10000 --duration 60 --clients 50000 -o root.pcap\n"
        "Example: reprise-mutator synth --arrival fixed --rate 100 --queries 1000 --tcp-share 0 "
        "-o - | zstd > fixed.pcap.zst");
}

} // namespace

void add_commands(CLI::App& app, CommandLine& line) {
    app.require_subcommand(1);
    app.get_formatter()->column_width(34);
    add_info(app, line.info);
    add_answers(app, line.answers);
    add_mutate(app, line.mutate);
    add_reduce(app, line.reduce);
    add_synth(app, line.synth, line.synth_output);
}

int run_command(const CLI::App& app, const CommandLine& line) {
    if (app.got_subcommand("info")) {
        return run_info(line.info);
    }
    if (app.got_subcommand("answers")) {
        return run_answers(line.answers);
    }
    if (app.got_subcommand("mutate")) {
        return run_mutate(mutate_options(app, line.mutate));
    }
    if (app.got_subcommand("reduce")) {
        return run_reduce(line.reduce);
    }
    return run_synth(line.synth, line.synth_output);
}

} // namespace reprise::mutator
