#include "mutator/mutate_report.hh"

#include "core/base/log.hh"
#include "core/trace/losses.hh"
#include "core/wire/result_file.hh"
#include "mutator/mutate.hh"
#include "mutator/output/json.hh"
#include "mutator/pipeline/inputs.hh"
#include "mutator/rules/engine/rule.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <string>
#include <vector>

namespace reprise::mutator {
namespace {

std::string json_list(const std::vector<std::string>& items) {
    return fmt::format("[{}]", fmt::join(items, ", "));
}

template <typename Counts> JsonObject& add_counts(JsonObject& object, const Counts& counts) {
    for (const auto& [name, count] : counts) {
        object.number(name, count);
    }
    return object;
}

std::string files_json(const std::vector<InputFile>& files) {
    std::vector<std::string> items;
    for (const InputFile& file : files) {
        const std::string& trouble = file.end.trouble;
        items.push_back(JsonObject()
                            .string("path", file.path)
                            .string("form", file.end.description)
                            .raw("trouble", trouble.empty() ? "null" : json_string(trouble))
                            .text());
    }
    return json_list(items);
}

std::string rules_json(const MutateOptions& options, const std::vector<RuleCounts>& rules) {
    std::vector<std::string> items;
    for (size_t i = 0; i < rules.size(); ++i) {
        JsonObject object;
        object.string("kind", options.rules.rules.at(i).kind())
            .string("place", options.rules.rules.at(i).place());
        items.push_back(add_counts(object, rules[i]).text());
    }
    return json_list(items);
}

std::vector<std::string> losses_of(const MutateReport& report) {
    return trace::losses(report.in.counters, report.in.queries + report.in.responses);
}

} // namespace

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
                 report.in.queries, report.out.queries, report.in.responses, report.in.closes,
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
    if (report.in.queries == 0) {
        spdlog::warn("work=mutate note=\"no DNS query was read ({} packets or rows, {} responses); "
                     "check the input, and give --port N for DNS on another port\"",
                     report.in.packets, report.in.responses);
    }
}

std::string report_json(const MutateOptions& options, const MutateReport& report) {
    JsonObject counters;
    add_counts(counters, report.in.counters);
    return JsonObject()
        .number("schema", 1)
        .raw("inputs", files_json(report.files))
        .string("output", options.output)
        .number("seed", options.rules.seed)
        .number("laps", options.inputs.laps)
        .number("queries_in", report.in.queries)
        .number("queries_out", report.out.queries)
        .number("responses_dropped", report.in.responses)
        .number("closes_in", report.in.closes)
        .number("closes_out", report.out.closes)
        .number("closes_left_out", report.out.losses.closes_left_out)
        .number("connections_split", report.out.losses.connections_split)
        .number("out_of_order", report.out.out_of_order)
        .number("packets", report.in.packets)
        .raw("counters", counters.text())
        .raw("losses", json_strings(losses_of(report)))
        .raw("rules", rules_json(options, report.rules))
        .number("bytes", report.bytes)
        .number("seconds", report.seconds)
        .text();
}

} // namespace reprise::mutator
