#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/flat_ids.hh"
#include "core/base/log.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/chain.hh"
#include "core/trace/feed.hh"
#include "core/wire/query.hh"
#include "mutator/commands.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace reprise::mutator {

namespace {

/// The class of each source address that has one, whatever its port; its first counts. Memory:
/// about 100 bytes for each of them.
struct SourceRtts {
    struct Class {
        std::uint16_t ms = 0;
        bool conflicting = false;
    };

    AddressTable sources;
    std::vector<Class> classes;    ///< by number
    std::uint64_t conflicting = 0; ///< sources whose queries carry more than one class
    std::uint64_t queries = 0;
    std::uint64_t without = 0; ///< queries without a class

    void add(const Query& query) {
        if (query.is_response() || query.is_close()) {
            return;
        }
        ++queries;
        if (query.rtt_class == 0) {
            ++without;
            return;
        }
        const std::uint32_t source = sources.add(query.source.address);
        if (source == classes.size()) {
            classes.push_back({.ms = query.rtt_class});
        }
        Class& known = classes[source];
        if (known.ms != query.rtt_class && !known.conflicting) {
            known.conflicting = true;
            ++conflicting;
        }
    }

    [[nodiscard]] std::string table() const {
        std::string text = "# source\trtt_ms\n";
        for (std::uint32_t i = 0; i < classes.size(); ++i) {
            fmt::format_to(std::back_inserter(text), "{}\t{}\n", sources[i].text(), classes[i].ms);
        }
        return text;
    }
};

struct RttsOptions {
    TraceCommand files;
    rules::RuleSet rules; ///< change the trace before
};

int run_rtts(const RttsOptions& options) {
    const std::string& trace = options.files.trace;
    demand_trace(trace);
    OutputFile file(options.files.output);
    trace::Feed feed(trace, {.ports = options.files.ports, .closes = !options.rules.rules.empty()});
    rules::Chain rules(options.rules);
    SourceRtts found;
    Progress progress("rtts", check_interrupt);
    rules.each(feed, [&](const Query& query) {
        found.add(query);
        progress.tick(found.queries);
        return true;
    });
    check_interrupt();
    if (found.sources.size() == 0) {
        throw Error(fmt::format("none of the {} queries of {} ({}) carries a round trip; give a "
                                "trace of the text or stream form with the column rtt",
                                found.queries, trace, feed.end().description));
    }
    file.write(found.table());
    file.finish();
    spdlog::info("work=rtts sources={} conflicting={} queries={} queries_without={} "
                 "elapsed_s={:.2f}",
                 found.sources.size(), found.conflicting, found.queries, found.without,
                 progress.elapsed_s());
    if (found.conflicting != 0) {
        fmt::print(stderr,
                   "reprise-mutator: {}: {} sources have several round trips; the first of each "
                   "counts\n",
                   trace, found.conflicting);
    }
    return status_of(trace, feed.end().trouble);
}

} // namespace

void add_rtts(Command& app, int& status) {
    const auto options = std::make_shared<RttsOptions>();
    Command command = app.add_subcommand(
        "rtts", "Writes the round trip of every source that has one, as a table for a delay line");
    add_files(command, options->files, "File to write, - for standard output");
    command
        .add_option_function(
            "--rules",
            [options](const std::string& path) { rules::read_rule_file(path, options->rules); },
            "TOML file of rules that change the trace before; may be repeated")
        .type_name("FILE")
        .trigger_on_parse();
    command.footer(
        "Lines ADDRESS rtt_ms, from the column rtt of the text form or the same in the stream "
        "form; other forms have\nnone. Where a source has several, its first counts.\n\n"
        "Example: reprise-mutator rtts trace.txt -o rtts.tsv");
    command.callback([options, &status] { status = run_rtts(*options); });
}

} // namespace reprise::mutator
