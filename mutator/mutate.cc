#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/host.hh"
#include "core/base/json.hh"
#include "core/base/log.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/chain.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/feed.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/losses.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"
#include "mutator/commands.hh"
#include "mutator/output/output_file.hh"
#include "mutator/pipeline/pipeline.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <linux/capability.h>
#include <malloc.h>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {

namespace {

constexpr const char* kRtts = "rtts";

struct MutateOptions {
    std::vector<std::string> inputs; ///< "-" is standard input
    std::vector<std::uint16_t> ports{53};
    std::string output; ///< "-" is standard output
    std::string to;     ///< form to write, or kRtts; empty for the output's ending
    unsigned jobs = 1;
    std::map<std::string, std::vector<std::string>> given; ///< rules by kind; "rules" are files
    std::string malformed = "keep";
    rules::RuleSet rules; ///< in the order of the command line
    std::string report;   ///< JSON file; empty for none
    /// "options" or "trace": look at the rules, and at the inputs; write nothing.
    std::string check;
};

using Rules = std::vector<std::unique_ptr<rules::Rule>>;

/// Chunks and batches are made and freed thousands of times, often by different threads. Given back
/// to the kernel in between, each would be paid for again in page faults.
void keep_freed_memory() {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

/// Shows the rules every query and changes nothing.
class SurveyStage final : public Stage {
public:
    explicit SurveyStage(std::vector<rules::Rule*> rules) : rules_(std::move(rules)) {}

    void run(BatchJob& job) override {
        for (const Query& query : job.batch.queries) {
            for (rules::Rule* rule : rules_) {
                rule->survey(query);
            }
        }
    }

private:
    std::vector<rules::Rule*> rules_;
};

/// Applies one rule.
class RuleStage final : public Stage {
public:
    explicit RuleStage(rules::Rule& rule) : rule_(&rule) {}

    void run(BatchJob& job) override {
        if (!job.batch.queries.empty()) {
            rule_->apply(job.batch);
        }
        last_ = job.last;
        flush_ = job.flush;
        end_piece(job);
    }

    [[nodiscard]] bool has_more() const override { return rule_->has_more(); }

    void run_more(BatchJob& job) override {
        rule_->apply_more(job.batch);
        job.flush = flush_;
        end_piece(job);
    }

private:
    /// The last piece of the last job is the last one behind this stage.
    void end_piece(BatchJob& job) {
        job.last = last_ && !has_more();
        if (job.last) {
            rule_->finish(job.batch);
        }
    }

    rules::Rule* rule_;
    bool last_ = false;  ///< the job at work was
    bool flush_ = false; ///< the same
};

struct OutputCounts {
    std::uint64_t queries = 0;
    std::uint64_t closes = 0;       ///< of the trace, as far as they are written
    std::uint64_t out_of_order = 0; ///< queries with an earlier time than the one before them
    trace::EncoderLosses losses;
};

/// Makes the output's bytes. Throws Error for a connection's number or a time that no reader would
/// take back.
class EncodeStage final : public Stage {
public:
    EncodeStage(std::unique_ptr<trace::QueryEncoder> encoder, OutputCounts& counts)
        : encoder_(std::move(encoder)), counts_(&counts) {}

    void run(BatchJob& job) override {
        if (!std::exchange(begun_, true)) {
            encoder_->begin(job.bytes);
        }
        for (Query& query : job.batch.queries) {
            query.sequence = counts_->queries;
            encoder_->encode(query, job.bytes);
            count(query);
        }
        counts_->losses = encoder_->losses();
        counts_->closes = closes_ - counts_->losses.closes_left_out;
        if (job.flush) {
            encoder_->flush(job.bytes);
        }
        if (job.last) {
            encoder_->finish(job.bytes);
        }
    }

private:
    void count(const Query& query) {
        if (query.connection > trace::kMaxConnection) {
            throw Error(fmt::format("connection {} is beyond {}, the greatest number that a trace "
                                    "can have; number the inputs' connections from 1",
                                    query.connection, trace::kMaxConnection));
        }
        if (!is_trace_time(query.time)) {
            throw Error(fmt::format("a query at {} ns lies outside the years 1900 to 2149, which a "
                                    "trace can have; change the times",
                                    query.time));
        }
        if (query.is_close()) {
            ++closes_;
            return;
        }
        ++counts_->queries;
        counts_->out_of_order += query.time < last_ ? 1U : 0U;
        last_ = query.time;
    }

    std::unique_ptr<trace::QueryEncoder> encoder_;
    OutputCounts* counts_;
    std::uint64_t closes_ = 0;                                   ///< that the encoder was given
    Nanoseconds last_ = std::numeric_limits<Nanoseconds>::min(); ///< time of the query before
    bool begun_ = false;
};

class WriteStage final : public Stage {
public:
    explicit WriteStage(OutputFile& output) : output_(&output) {}

    void run(BatchJob& job) override { output_->write(job.bytes); }

private:
    OutputFile* output_;
};

/// All inputs as one trace of queries and closes.
trace::FeedOptions feed_options(const MutateOptions& options) {
    return {.paths = options.inputs,
            .reader = {.ports = options.ports, .closes = true},
            .threads = options.jobs};
}

/// The first pass, for the rules that must see everything before they begin.
void survey(const MutateOptions& options, const Rules& rules) {
    std::vector<rules::Rule*> asking;
    for (const auto& rule : rules) {
        if (rule->surveys()) {
            asking.push_back(rule.get());
        }
    }
    if (asking.empty()) {
        return;
    }
    trace::Feed feed(feed_options(options));
    if (feed.live()) {
        throw UsageError("a rule reads the trace twice, and a pipe can be read once; write it to a "
                         "file first, or leave out the rule (heavy)");
    }
    std::vector<std::unique_ptr<Stage>> stages;
    stages.push_back(std::make_unique<SurveyStage>(std::move(asking)));
    Pipeline(feed, std::move(stages), options.jobs).run();
}

std::unique_ptr<trace::QueryEncoder> make_encoder(const MutateOptions& options) {
    if (options.to == kRtts) {
        return make_rtt_encoder();
    }
    const auto form = options.to.empty() ? trace::form_of(options.output)
                                         : std::optional(trace::form_named(options.to));
    if (!form) {
        throw UsageError(fmt::format("the name {} does not say which form to write; end it in "
                                     ".pcap, .tsv, .txt or .rps, or give --to pcap, text or stream",
                                     options.output));
    }
    return trace::make_encoder(*form);
}

/// One stage each, as the pipeline takes them; `counts` is kept up to date by the encoder's.
std::vector<std::unique_ptr<Stage>> make_stages(const Rules& rules,
                                                std::unique_ptr<trace::QueryEncoder> encoder,
                                                OutputFile& output, OutputCounts& counts) {
    std::vector<std::unique_ptr<Stage>> stages;
    for (const auto& rule : rules) {
        stages.push_back(std::make_unique<RuleStage>(*rule));
    }
    stages.push_back(std::make_unique<EncodeStage>(std::move(encoder), counts));
    stages.push_back(std::make_unique<WriteStage>(output));
    return stages;
}

/// Says what is wrong with which input. Throws where none could be read.
int tell_trouble(const std::vector<trace::Feed::File>& files) {
    if (std::ranges::none_of(files,
                             [](const trace::Feed::File& file) { return file.end.opened; })) {
        throw trace::TraceError(files.front().end.trouble);
    }
    int status = 0;
    for (const trace::Feed::File& file : files) {
        if (!file.end.trouble.empty()) {
            status = 1;
            fmt::print(stderr, "reprise-mutator: {}{}; the rest is written\n",
                       file.end.opened ? file.path + ": " : "", file.end.trouble);
        }
    }
    return status;
}

/// Opened before the work: that it cannot be written is known before hours have passed.
std::optional<OutputFile> open_report(const MutateOptions& options) {
    if (options.report.empty()) {
        return std::nullopt;
    }
    if (same_output(options.report, options.output)) {
        throw UsageError(fmt::format("--report and -o both write to {}; give --report another name",
                                     options.report));
    }
    return std::optional<OutputFile>(std::in_place, options.report, "--report");
}

void demand_inputs(const MutateOptions& options) {
    std::ranges::for_each(options.inputs, demand_trace);
}

/// Each input is read up to its first query.
int check_mutate(const MutateOptions& options) {
    rules::make_rules(options.rules);
    if (options.check == "options") {
        return 0;
    }
    demand_inputs(options);
    for (const std::string& path : options.inputs) {
        trace::Feed feed(path, {.ports = options.ports}, 1);
        std::uint64_t responses = 0;
        const bool ended = feed.each([&](const Query& query) {
            responses += query.is_response() ? 1U : 0U;
            return query.is_response();
        });
        if (ended) {
            throw Error(no_queries(path, feed, responses));
        }
    }
    return 0;
}

/// What a mutation did.
struct MutateReport {
    std::uint64_t queries = 0; ///< read
    std::uint64_t closes = 0;
    std::uint64_t responses = 0; ///< left out
    std::uint64_t packets = 0;   ///< or rows, or records
    trace::Counters counters;    ///< as the reader's
    OutputCounts out;
    std::uint64_t bytes = 0; ///< written
    double seconds = 0;
    std::vector<rules::RuleCounts> rules; ///< in the order of the options' rules
};

Json files_json(const std::vector<trace::Feed::File>& files) {
    return list_of(files, [](const trace::Feed::File& file) {
        return Json{{"path", file.path},
                    {"form", file.end.description},
                    {"trouble", text_or_null(file.end.trouble)}};
    });
}

std::vector<std::string> losses_of(const MutateReport& report) {
    return trace::losses(report.counters, report.queries + report.responses);
}

/// One line a rule, and one for the whole.
void log_report(const MutateOptions& options, const MutateReport& report) {
    for (size_t i = 0; i < report.rules.size(); ++i) {
        std::string counts;
        for (const auto& [name, count] : report.rules[i]) {
            counts += fmt::format(" {}={}", name, count);
        }
        const auto& rule = options.rules.rules.at(i);
        spdlog::info("work=mutate rule={} kind={} place={}{}", i + 1, rule.kind(),
                     log_value(rule.place()), counts);
    }
    spdlog::info("work=mutate queries_in={} queries_out={} responses_dropped={} closes_in={} "
                 "closes_out={} bytes={} elapsed_s={:.2f}",
                 report.queries, report.out.queries, report.responses, report.closes,
                 report.out.closes, report.bytes, report.seconds);
    if (report.out.out_of_order > 0) {
        spdlog::warn(
            "work=mutate out_of_order={} note=\"this many queries have an earlier time than "
            "the one before them; sort the inputs by time\"",
            report.out.out_of_order);
    }
    for (const std::string& loss : losses_of(report)) {
        spdlog::warn("work=mutate lost={}", log_value(loss));
    }
    if (report.queries == 0) {
        spdlog::warn("work=mutate note=\"no DNS query was read ({} packets or rows, {} responses); "
                     "check the input, and give --port N for DNS on another port\"",
                     report.packets, report.responses);
    }
    if (const std::string left_out = trace::left_out(report.counters); !left_out.empty()) {
        spdlog::warn("work=mutate left_out={}", log_value(left_out)); // the last line
    }
}

/// One JSON object, schema 1.
std::string report_json(const MutateOptions& options, const MutateReport& report,
                        const std::vector<trace::Feed::File>& files) {
    return json_text({{"schema", 1},
                      {"inputs", files_json(files)},
                      {"output", options.output},
                      {"seed", options.rules.settings.seed},
                      {"queries_in", report.queries},
                      {"queries_out", report.out.queries},
                      {"responses_dropped", report.responses},
                      {"closes_in", report.closes},
                      {"closes_out", report.out.closes},
                      {"closes_left_out", report.out.losses.closes_left_out},
                      {"connections_split", report.out.losses.connections_split},
                      {"out_of_order", report.out.out_of_order},
                      {"packets", report.packets},
                      {"counters", report.counters},
                      {"losses", losses_of(report)},
                      {"rules", rules::counts_json(options.rules, report.rules)},
                      {"bytes", report.bytes},
                      {"seconds", report.seconds}});
}

int run_mutate(const MutateOptions& options) {
    auto encoder = make_encoder(options);
    if (!options.check.empty()) {
        return check_mutate(options);
    }
    std::signal(SIGPIPE, SIG_IGN); // NOLINT(cert-err33-c): writing says so, with the pipe's name
    keep_freed_memory();
    raise_descriptor_limit(); // files that overlap in time are open together
    const Nanoseconds began = SteadyClock::now();
    const Rules rules = rules::make_rules(options.rules);
    demand_inputs(options);
    OutputFile output(options.output);
    std::optional<OutputFile> report_file = open_report(options);
    survey(options, rules);
    trace::Feed feed(feed_options(options));
    if (options.inputs.size() == 1 && !feed.live()) {
        feed.open(); // others are opened when their time comes
        give_up({CAP_DAC_READ_SEARCH});
    }
    MutateReport report;
    Pipeline pipeline(feed, make_stages(rules, std::move(encoder), output, report.out),
                      options.jobs);
    pipeline.run();
    const int status = tell_trouble(feed.files());
    output.finish();
    report.seconds = static_cast<double>(SteadyClock::now() - began) / 1e9;
    report.bytes = output.bytes();
    report.queries = pipeline.queries();
    report.closes = pipeline.closes();
    report.responses = feed.responses();
    report.packets = feed.packets();
    report.counters = feed.counters();
    for (const auto& rule : rules) {
        report.rules.push_back(rule->counts());
    }
    log_report(options, report);
    if (report_file) {
        report_file->write(report_json(options, report, feed.files()) + "\n");
        report_file->finish();
    }
    return status;
}

const std::string kRuleFile = "rules";
constexpr unsigned kMostJobs = 256;

void add_inputs(Command& command, MutateOptions& options) {
    command
        .add_option("IN", options.inputs,
                    "Traces, of any form that info reads, known by content; - for standard input. "
                    "Several are merged by time")
        .required();
    command.add_option("-o,--output", options.output, "File to write, - for standard output")
        .required();
    command
        .add_option("--to", options.to,
                    "Form to write; else by the output's ending: .pcap, .tsv or .txt, .rps. rtts: "
                    "a table ADDRESS rtt_ms of the sources that have one, for a delay line")
        .one_of({"pcap", "text", "stream", kRtts});
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

void add_rules(Command& command, MutateOptions& options) {
    const std::string group = "Rules, applied in the order given";
    command
        .add_option("--rules", options.given[kRuleFile],
                    "TOML file of rules, put in at this place; may be repeated")
        .type_name("FILE")
        .allow_extra_args(false)
        .group(group);
    for (const rules::RuleKind& kind : rules::rule_kinds()) {
        command.add_option("--" + kind.name, options.given[kind.name], kind.help)
            .type_name("KEY=VALUE,...")
            .allow_extra_args(false)
            .group(group);
        if (!kind.older.empty()) {
            command.add_option("--" + kind.older, options.given[kind.older], kind.help)
                .allow_extra_args(false)
                .hidden();
        }
    }
    command.add_option("--seed", options.rules.settings.seed, "Of what rules draw at random")
        .show_default();
    command
        .add_option("--malformed", options.malformed,
                    "Messages that a rule cannot parse: kept as they are, or dropped")
        .one_of({"keep", "drop"})
        .show_default();
}

/// Once all options are known.
void complete(const Command& command, MutateOptions& options) {
    const std::uint64_t seed = options.rules.settings.seed;
    std::map<std::string, size_t> used;
    for (const std::string& name : command.parse_order()) {
        const auto values = options.given.find(name);
        if (values == options.given.end()) {
            continue;
        }
        const std::string& value = values->second.at(used[name]++);
        if (name == kRuleFile) {
            rules::read_rule_file(value, options.rules);
        } else {
            options.rules.rules.push_back(rules::parse_rule_option(name, value));
        }
    }
    // What the command line says wins over rule files.
    if (command.count("--seed") > 0) {
        options.rules.settings.seed = seed;
    }
    if (command.count("--malformed") > 0) {
        options.rules.settings.drop_malformed = options.malformed == "drop";
    }
}

} // namespace

void add_mutate(Command& app, int& status) {
    const auto options = std::make_shared<MutateOptions>();
    Command command = app.add_subcommand(
        "mutate", "Changes traces by rules: one or several in any form, one out");
    add_inputs(command, *options);
    add_rules(command, *options);
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
    command.callback([&app, options, &status] {
        complete(app.get_subcommand("mutate"), *options);
        status = run_mutate(*options);
    });
}

} // namespace reprise::mutator
