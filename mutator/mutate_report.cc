#include "mutator/mutate_report.hh"

#include "core/base/json.hh"
#include "core/base/log.hh"
#include "core/trace/feed.hh"
#include "core/trace/losses.hh"
#include "mutator/mutate.hh"
#include "mutator/pipeline/inputs.hh"
#include "mutator/rules/engine/rule.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

template <typename Counts> void add_counts(Json& object, const Counts& counts) {
    for (const auto& [name, count] : counts) {
        object[name] = count;
    }
}

Json files_json(const std::vector<trace::Feed::File>& files) {
    Json out = Json::array();
    for (const trace::Feed::File& file : files) {
        out.push_back({{"path", file.path},
                       {"form", file.end.description},
                       {"trouble", text_or_null(file.end.trouble)}});
    }
    return out;
}

Json rules_json(const MutateOptions& options, const std::vector<RuleCounts>& rules) {
    Json out = Json::array();
    for (size_t i = 0; i < rules.size(); ++i) {
        const auto& rule = options.rules.rules.at(i);
        Json& object = out.emplace_back(Json{{"kind", rule.kind()}, {"place", rule.place()}});
        add_counts(object, rules[i]);
    }
    return out;
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
    Json counters = Json::object();
    add_counts(counters, report.in.counters);
    return json_text({{"schema", 1},
                      {"inputs", files_json(report.files)},
                      {"output", options.output},
                      {"seed", options.rules.seed},
                      {"laps", options.inputs.laps},
                      {"queries_in", report.in.queries},
                      {"queries_out", report.out.queries},
                      {"responses_dropped", report.in.responses},
                      {"closes_in", report.in.closes},
                      {"closes_out", report.out.closes},
                      {"closes_left_out", report.out.losses.closes_left_out},
                      {"connections_split", report.out.losses.connections_split},
                      {"out_of_order", report.out.out_of_order},
                      {"packets", report.in.packets},
                      {"counters", std::move(counters)},
                      {"losses", losses_of(report)},
                      {"rules", rules_json(options, report.rules)},
                      {"bytes", report.bytes},
                      {"seconds", report.seconds}});
}

} // namespace reprise::mutator
