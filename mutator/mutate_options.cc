
#include "core/base/command_line.hh"
#include "core/rules/engine/catalog.hh"
#include "core/trace/forms/query_encoder.hh"
#include "mutator/mutate.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace reprise::mutator {
namespace {

const std::string kRuleFile = "rules";
constexpr unsigned kMostJobs = 256;
constexpr std::uint64_t kMostLaps = 1'000'000;

void add_files(Command& command, MutateLine& line) {
    MutateOptions& options = line.options;
    command
        .add_option("IN", options.inputs.paths,
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
        .add_option("--port", options.inputs.ports,
                    "DNS port in captures, on either end; may be repeated")
        .in_range(1, 65'535)
        .allow_extra_args(false)
        .show_default();
    command
        .add_option("--loop", options.inputs.laps,
                    "Read the inputs N times; times go on from lap to lap")
        .in_range(std::uint64_t{1}, kMostLaps);
    command.add_option("--jobs", options.jobs, "Threads; the output is the same for any number")
        .in_range(1U, kMostJobs)
        .show_default();
    command
        .add_option(
            "--check", options.check,
            "Write nothing: look at the rules, and with trace also for a query in each input, and "
            "about how many there are")
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

} // namespace

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

} // namespace reprise::mutator
