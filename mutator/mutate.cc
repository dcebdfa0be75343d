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
#include <iterator>
#include <limits>
#include <linux/capability.h>
#include <malloc.h>
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

/// Applies one rule. The last piece of the last batch is the last one behind this stage.
Stage rule_stage(rules::Rule& rule) {
    return [&rule](BatchJob& job) {
        if (rule.has_more() || !job.batch.queries.empty()) {
            rule.apply(job.batch);
        }
        const bool more = rule.has_more();
        job.last = job.last && !more;
        if (job.last) {
            rule.finish(job.batch);
        }
        return more;
    };
}

/// Makes the output's bytes. Throws Error for a connection's number or a time that no reader would
/// take back.
class Encoding {
public:
    explicit Encoding(std::unique_ptr<trace::QueryEncoder> encoder)
        : encoder_(std::move(encoder)) {}

    void run(BatchJob& job) {
        if (!std::exchange(begun_, true)) {
            encoder_->begin(job.bytes);
        }
        for (Query& query : job.batch.queries) {
            query.sequence = queries_;
            encoder_->encode(query, job.bytes);
            count(query);
        }
        if (job.flush) {
            encoder_->flush(job.bytes);
        }
        if (job.last) {
            encoder_->finish(job.bytes);
        }
    }

    [[nodiscard]] std::uint64_t queries() const { return queries_; }

    /// Of the trace, given to the encoder.
    [[nodiscard]] std::uint64_t closes() const { return closes_; }

    /// Queries with an earlier time than the one before them.
    [[nodiscard]] std::uint64_t out_of_order() const { return out_of_order_; }

    [[nodiscard]] trace::EncoderLosses losses() const { return encoder_->losses(); }

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
        ++queries_;
        out_of_order_ += query.time < last_ ? 1U : 0U;
        last_ = query.time;
    }

    std::unique_ptr<trace::QueryEncoder> encoder_;
    std::uint64_t queries_ = 0;
    std::uint64_t closes_ = 0;
    std::uint64_t out_of_order_ = 0;
    Nanoseconds last_ = std::numeric_limits<Nanoseconds>::min(); ///< time of the query before
    bool begun_ = false;
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
    const auto show = [&asking](BatchJob& job) {
        for (const Query& query : job.batch.queries) {
            std::ranges::for_each(asking, [&](rules::Rule* rule) { rule->survey(query); });
        }
        return false;
    };
    Pipeline(feed, {show}, options.jobs).run();
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

std::vector<Stage> make_stages(const Rules& rules, Encoding& encoding, OutputFile& output) {
    std::vector<Stage> stages;
    for (const auto& rule : rules) {
        stages.push_back(rule_stage(*rule));
    }
    stages.emplace_back([&encoding](BatchJob& job) {
        encoding.run(job);
        return false;
    });
    stages.emplace_back([&output](BatchJob& job) {
        output.write(job.bytes);
        return false;
    });
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

Json files_json(const std::vector<trace::Feed::File>& files) {
    return list_of(files, [](const trace::Feed::File& file) {
        return Json{{"path", file.path},
                    {"form", file.end.description},
                    {"trouble", text_or_null(file.end.trouble)}};
    });
}

/// What a mutation did, schema 1, but for the last two keys.
Json report_json(const MutateOptions& options, const Rules& rules, const trace::Feed& feed,
                 const Pipeline& pipeline, const Encoding& encoding) {
    std::vector<rules::RuleCounts> counts;
    std::ranges::transform(rules, std::back_inserter(counts),
                           [](const auto& rule) { return rule->counts(); });
    const trace::EncoderLosses lost = encoding.losses();
    return {{"schema", 1},
            {"inputs", files_json(feed.files())},
            {"output", options.output},
            {"seed", options.rules.settings.seed},
            {"queries_in", pipeline.queries()},
            {"queries_out", encoding.queries()},
            {"responses_dropped", feed.responses()},
            {"closes_in", pipeline.closes()},
            {"closes_out", encoding.closes() - lost.closes_left_out},
            {"closes_left_out", lost.closes_left_out},
            {"connections_split", lost.connections_split},
            {"out_of_order", encoding.out_of_order()},
            {"packets", feed.packets()},
            {"counters", feed.counters()},
            {"losses", trace::losses(feed.counters(), pipeline.queries() + feed.responses())},
            {"rules", rules::counts_json(options.rules, counts)}};
}

/// " NAME=VALUE" for each.
std::string log_values(const Json& values) {
    std::string text;
    for (const auto& [name, value] : values.items()) {
        text += fmt::format(" {}={}", name,
                            value.is_string() ? log_value(value.get<std::string>()) : value.dump());
    }
    return text;
}

/// One line a rule, and one for the whole.
void log_report(const Json& report, const trace::Counters& counters) {
    size_t number = 0;
    for (const Json& rule : report.at("rules")) {
        spdlog::info("work=mutate rule={}{}", ++number, log_values(rule));
    }
    Json whole;
    for (const char* key :
         {"queries_in", "queries_out", "responses_dropped", "closes_in", "closes_out", "bytes"}) {
        whole[key] = report.at(key);
    }
    spdlog::info("work=mutate{} elapsed_s={:.2f}", log_values(whole),
                 report.at("seconds").get<double>());
    if (report.at("out_of_order") != 0) {
        spdlog::warn(
            "work=mutate out_of_order={} note=\"this many queries have an earlier time than "
            "the one before them; sort the inputs by time\"",
            report.at("out_of_order").dump());
    }
    for (const Json& loss : report.at("losses")) {
        spdlog::warn("work=mutate lost={}", log_value(loss.get<std::string>()));
    }
    if (report.at("queries_in") == 0) {
        spdlog::warn("work=mutate note=\"no DNS query was read ({} packets or rows, {} responses); "
                     "check the input, and give --port N for DNS on another port\"",
                     report.at("packets").dump(), report.at("responses_dropped").dump());
    }
    if (const std::string left_out = trace::left_out(counters); !left_out.empty()) {
        spdlog::warn("work=mutate left_out={}", log_value(left_out)); // the last line
    }
}

int run_mutate(const MutateOptions& options) {
    Encoding encoding(make_encoder(options));
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
    Pipeline pipeline(feed, make_stages(rules, encoding, output), options.jobs);
    pipeline.run();
    const int status = tell_trouble(feed.files());
    output.finish();
    Json report = report_json(options, rules, feed, pipeline, encoding);
    report["bytes"] = output.bytes();
    report["seconds"] = static_cast<double>(SteadyClock::now() - began) / 1e9;
    log_report(report, feed.counters());
    if (report_file) {
        report_file->write(json_text(report) + "\n");
        report_file->finish();
    }
    return status;
}

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

// Rules are read as they are met, all other options at the end of the command line, so seed and
// malformed win over those of rule files.
void add_rules(Command& command, MutateOptions& options) {
    const std::string group = "Rules, applied in the order given";
    command
        .add_option_function(
            "--rules",
            [&options](const std::string& path) { rules::read_rule_file(path, options.rules); },
            "TOML file of rules, put in at this place; may be repeated")
        .type_name("FILE")
        .group(group)
        .trigger_on_parse();
    for (const rules::RuleKind& kind : rules::rule_kinds()) {
        const auto add = [&](const std::string& name) {
            const auto take = [&options, name](const std::string& value) {
                options.rules.rules.push_back(rules::parse_rule_option(name, value));
            };
            return command.add_option_function("--" + name, take, kind.help)
                .type_name("KEY=VALUE,...")
                .trigger_on_parse();
        };
        add(kind.name).group(group);
        if (!kind.older.empty()) {
            add(kind.older).hidden();
        }
    }
    command.add_option("--seed", options.rules.settings.seed, "Of what rules draw at random")
        .show_default();
    command.add_choice("--malformed", options.rules.settings.drop_malformed,
                       {{"keep", false}, {"drop", true}},
                       "Messages that a rule cannot parse: kept as they are (default), or dropped");
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
    command.callback([options, &status] { status = run_mutate(*options); });
}

} // namespace reprise::mutator
