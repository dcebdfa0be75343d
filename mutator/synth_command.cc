#include "core/base/command_line.hh"
#include "core/base/log.hh"
#include "core/base/random.hh"
#include "core/trace/forms/query_encoder.hh"
#include "mutator/commands.hh"
#include "mutator/output/output_file.hh"
#include "mutator/synth/clients.hh"
#include "mutator/synth/names.hh"
#include "mutator/synth/synth.hh"
#include "mutator/synth/synth_options.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

/// Adds options below one heading of --help.
class Group {
public:
    Group(Command& command, std::string heading)
        : command_(&command), heading_(std::move(heading)) {}

    template <typename T> Option add(const char* name, T& value, const char* help) {
        return command_->add_option(name, value, help).group(heading_);
    }

    /// The same of one that has a default.
    template <typename T> Option show(const char* name, T& value, const char* help) {
        return add(name, value, help).show_default();
    }

private:
    Command* command_;
    std::string heading_;
};

void add_length(Command& command, SynthOptions& options) {
    const char* const heading = "Length and time";
    Group group(command, heading);
    group.add("--queries", options.queries, "Number of queries").positive();
    group.add("--duration", options.duration_s,
              "Seconds of trace; 60, or the profile's, where --queries is not given either");
    group.show("--rate", options.rate_qps, "Mean rate, queries/s");
    command
        .add_choice("--arrival", options.arrival,
                    {{"poisson", Arrival::kPoisson},
                     {"fixed", Arrival::kFixed},
                     {"bursty", Arrival::kBursty}},
                    "poisson (default); fixed: evenly spaced (over TCP a connection's first query "
                    "comes a round trip after its turn); bursty: gaps spread as --gap-cv says")
        .group(heading);
    group.show("--gap-cv", options.gap_cv,
               "Of bursty arrivals: standard deviation of the gaps over their mean, from 1");
    group.add("--start", options.start_s,
              "Time of the first query, seconds since 1970; 1704067200 (2024-01-01) by default");
    group
        .show("--seed", options.seed,
              "The same options and seed give the same bytes on every machine")
        .non_negative();
}

void add_shares(Command& command, SynthOptions& options) {
    Group group(command, "Shares, 0 to 1");
    group.show("--ipv6-share", options.ipv6_share,
               "Of the queries, by IPv6; a client keeps its family");
    group.show("--tcp-share", options.tcp_share,
               "Of the queries, by TCP; drawn query by query, from all clients");
    group.show("--edns-share", options.edns_share,
               "Of the queries, with EDNS; a client always has it or never");
    group.show("--do-share", options.do_share,
               "Of the queries with EDNS, with the DO bit; a client's habit too");
    group.show("--cd-share", options.cd_share,
               "Of the queries with DO, with the CD bit; a client's habit too");
    group.show("--junk-share", options.junk_share,
               "Of the queries, for top-level domains that do not exist");
    group.show("--rd-share", options.rd_share,
               "Of the queries, with the RD bit; drawn query by query");
}

void add_content(Command& command, SynthOptions& options) {
    const char* const heading = "Content";
    Group group(command, heading);
    group.show("--types", options.types, "Query types with weights");
    group.show("--edns-sizes", options.edns_sizes, "EDNS sizes in bytes with weights");
    group.show("--tcp-queries", options.tcp_queries,
               "Mean number of queries a TCP connection, which ends after 5 s without one");
    group.add("--names", options.names,
              "Names to ask for, the n-th n^-S as often as the first: a file with one a line, "
              "or RANK,NAME; plain or gz, bz2, xz, zst, lz4");
    group.show("--names-zipf", options.names_zipf, "Exponent S of the names' popularity");
    command
        .add_flag("--names-in-turn", options.names_in_turn,
                  "Each client asks for the names in their order, and begins again at the end")
        .group(heading);
    group.add("--unique-below", options.unique_below,
              "A new name for each query, below this domain");
    group.show("--tld-file", options.tld_file,
               "Top-level domains: a public suffix list, or names one a line");
}

void add_addresses(Command& command, SynthOptions& options) {
    const char* const heading = "Clients and server";
    Group group(command, heading);
    group.show("--clients", options.clients, "Number of clients; 17 bytes of memory each")
        .positive();
    group.show("--zipf", options.zipf,
               "Exponent of the clients' activity: the n-th asks n^-S as much as the first; 0 "
               "= all alike");
    group.show("--zipf-shift", options.zipf_shift,
               "Added to each client's rank before: the more, the flatter the busiest");
    command
        .add_choice("--ports", options.ports,
                    {{"random", PortStyle::kRandom}, {"mixed", PortStyle::kMixed}},
                    "Clients' ports: random (default); mixed: by client, as a real minute has them")
        .group(heading);
    group.show("--client-prefix", options.client_prefix, "IPv4 clients' addresses");
    group.show("--client-prefix6", options.client_prefix6, "IPv6 clients' addresses");
    group.show("--server", options.server, "Server's IPv4 address");
    group.show("--server6", options.server6, "Server's IPv6 address");
}

std::string profile_help() {
    std::string help = "What the options not given are";
    for (const Profile& profile : profiles()) {
        help += fmt::format("; {}: {}", profile.name, profile.help);
    }
    return help;
}

// The profile is read as soon as it is met, all other options at the end of the command line, so
// they win over it.
void add_profile(Command& command, SynthOptions& options) {
    std::vector<std::string> names;
    for (const Profile& profile : profiles()) {
        names.push_back(profile.name);
    }
    command
        .add_option_function(
            "--profile", [&options](const std::string& name) { options = profile_options(name); },
            profile_help())
        .one_of(names)
        .trigger_on_parse();
}

void add_form(Command& command, SynthOptions& options) {
    command
        .add_option("--to", options.form,
                    "Form to write: pcap, text or stream; by the file's ending (.tsv, .txt, .rps) "
                    "where it is not given, else pcap")
        .one_of({"pcap", "text", "stream"});
    command.add_flag("--check", options.check,
                     "Write nothing: look at the options, and print how much the trace would hold");
}

trace::OutputForm output_form(const SynthOptions& options) {
    return options.form.empty() ? trace::form_of(options.output).value_or(trace::OutputForm::kPcap)
                                : trace::form_named(options.form);
}

void log_synth(const SynthCounts& counts, const SynthSink& sink, double seconds) {
    spdlog::info("work=synth queries={} tcp_queries={} connections={} ipv6_queries={} "
                 "junk_queries={} packets={} bytes={} trace_s={:.6f} elapsed_s={:.2f}",
                 counts.queries, counts.tcp_queries, counts.connections, counts.ipv6_queries,
                 counts.junk_queries, sink.records(), sink.bytes(),
                 static_cast<double>(counts.length) / 1e9, seconds);
}

/// What is to be expected of the trace.
void tell_extent(const SynthSettings& settings) {
    const double rate = settings.options.rate_qps;
    const double queries =
        std::min(static_cast<double>(settings.most_queries), rate * settings.duration_ns / 1e9);
    fmt::print("extent queries={:.0f} span_s={:.3f}\n", queries, queries / rate);
}

int run_synth(const SynthOptions& options) {
    const SynthSettings settings = check_options(options);
    std::vector<std::string> tlds;
    if (needs_tlds(settings)) {
        tlds = load_tlds(options.tld_file);
    }
    if (options.check) {
        tell_extent(settings);
        return 0;
    }
    SynthSink sink(options.output, output_form(options));
    Synthesizer synthesizer(settings, std::move(tlds), sink);
    Progress progress("synth", check_interrupt);
    while (synthesizer.step()) {
        progress.tick(synthesizer.counts().queries);
    }
    synthesizer.finish();
    log_synth(synthesizer.counts(), sink, progress.elapsed_s());
    return 0;
}

} // namespace

void add_synth_options(Command& command, SynthOptions& options) {
    add_profile(command, options);
    add_form(command, options);
    add_length(command, options);
    add_shares(command, options);
    add_content(command, options);
    add_addresses(command, options);
}

void add_synth(Command& app, int& status) {
    const auto options = std::make_shared<SynthOptions>();
    Command command = app.add_subcommand(
        "synth",
        "Makes a trace of queries: like a root server's, like a resolver's, or in fixed steps");
    command.add_option("-o,--output", options->output, "File to write, - for standard output")
        .required();
    add_synth_options(command, *options);
    command.footer(
        "Memory does not grow with the trace's length.\n\n"
        "Example: reprise-mutator synth --profile root -o minute.pcap\n"
        "Example: reprise-mutator synth --profile syn-2 --duration 60 -o steps.tsv\n"
        "Example: reprise-mutator synth --profile recursive --names top-10k.txt.xz -o stub.rps\n"
        "Example: reprise-mutator synth --rate 10000 --duration 60 --clients 50000 -o root.pcap\n"
        "Example: reprise-mutator synth --arrival fixed --rate 100 --queries 1000 --tcp-share 0 "
        "-o - | zstd > fixed.pcap.zst");
    command.callback([options, &status] { status = run_synth(*options); });
}

} // namespace reprise::mutator
