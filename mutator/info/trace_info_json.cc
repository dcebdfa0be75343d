// What a trace holds, for programs.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/histogram.hh"
#include "core/base/json.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "mutator/info/info_figures.hh"
#include "mutator/info/trace_info.hh"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::mutator {
namespace {

struct Point {
    std::string_view name;
    double share;
};

constexpr std::array<Point, 7> kPoints{{{"p1", 0.01},
                                        {"p5", 0.05},
                                        {"q1", 0.25},
                                        {"median", 0.5},
                                        {"q3", 0.75},
                                        {"p95", 0.95},
                                        {"p99", 0.99}}};

Json tally_json(const Tally& tally, const Tally& all) {
    return {{"queries", tally.queries},
            {"responses", tally.responses},
            {"share", share(tally.queries, all.queries)}};
}

Json named_json(const Named& counts) {
    Json out = Json::object();
    for (const auto& [name, count] : counts) {
        out[name] = count;
    }
    return out;
}

Json distribution_json(const Histogram& histogram) {
    Json out{{"count", histogram.count()},
             {"mean", microseconds(histogram.mean())},
             {"sd", microseconds(histogram.standard_deviation())},
             {"min", microseconds(histogram.min())}};
    for (const Point& point : kPoints) {
        out[point.name] = microseconds(histogram.quantile(point.share));
    }
    out["max"] = microseconds(histogram.max());
    return out;
}

/// Percentiles 0 to 100, for a curve.
Json percentiles_json(const Histogram& histogram) {
    Json out = Json::array();
    for (int i = 0; histogram.count() > 0 && i <= 100; ++i) {
        out.push_back(microseconds(i == 0 ? histogram.min() : histogram.quantile(i / 100.0)));
    }
    return out;
}

Json handshakes_json(const HandshakeFigures& shakes) {
    return {{"count", shakes.count()},
            {"capture_point", text_or_null(shakes.capture_point())},
            {"rtt_us", distribution_json(shakes.rtt())},
            {"to_server_us", distribution_json(shakes.to_server())},
            {"to_client_us", distribution_json(shakes.to_client())},
            {"rtt_percentiles_us", percentiles_json(shakes.rtt())}};
}

Json names_json(const TraceFigures& f) {
    const TopKeys& names = f.names;
    const auto row = [&f](const TopKeys::Entry& entry) {
        return Json{{"name", name_text(bytes_of(entry.key))},
                    {"queries", entry.count},
                    {"share", share(entry.count, f.all.queries)}};
    };
    const bool exact = names.error() == 0;
    return {{"distinct", names.distinct()},
            {"exact", exact},
            {"distinct_error", exact ? 0 : 2 * DistinctSketch::kStandardError},
            {"error", names.error()},
            {"top", list_of(names.top(20), row)}};
}

Json retransmits_json(const TraceFigures& f) {
    return {{"queries", f.retransmits},
            {"share", share(f.retransmits, f.all.queries)},
            {"window_s", kRetransmitTime / kSecond}};
}

Json sources_json(const TraceFigures& f) {
    const auto row = [&f](const SourceCount& source) {
        return Json{{"address", source.first.text()},
                    {"queries", source.second},
                    {"share", share(source.second, f.all.queries)}};
    };
    const auto pair = [](const SkewPoint& point) { return Json{point.sources, point.share}; };
    return {{"distinct", f.sources.size()},
            {"top_1_share", share(f.top_queries(1), f.all.queries)},
            {"top_10_share", share(f.top_queries(10), f.all.queries)},
            {"top_100_share", share(f.top_queries(100), f.all.queries)},
            {"top", list_of(f.top_sources(10), row)},
            {"busiest_1_percent_share", f.skew.busiest_1_percent},
            {"busiest_10_percent_share", f.skew.busiest_10_percent},
            {"zipf_exponent", f.skew.zipf},
            {"curve", list_of(f.skew.curve, pair)}};
}

Json edns_json(const TraceFigures& f) {
    return {{"queries", f.edns},
            {"share", share(f.edns, f.all.queries)},
            {"do", f.dnssec_ok},
            {"do_share", share(f.dnssec_ok, f.all.queries)},
            {"sizes", named_json(named(f.edns_sizes, number_text))}};
}

Json file_json(const FileFacts& file) {
    return {{"schema", 1},
            {"trace", file.path},
            {"format", file.description},
            {"trouble", text_or_null(file.trouble)},
            {"packets", file.packets},
            {"counters", file.counters},
            {"losses", file.losses}};
}

Json time_json(const TraceFigures& f) {
    return {
        {"first", utc(f.first)},
        {"last", utc(f.last)},
        {"first_ns", f.first},
        {"last_ns", f.last},
        {"span_s", static_cast<double>(f.last - f.first) / 1e9},
        {"rate_qps", f.rate()},
        {"peak_second", {{"time", utc(f.peak.second() * kSecond)}, {"queries", f.peak.queries()}}},
        {"interarrival_us", distribution_json(f.gaps)},
        {"out_of_order", f.went_back}};
}

Json queries_json(const TraceFigures& f) {
    Json transports = Json::object();
    for (const auto& [name, tally] : f.transports) {
        transports[name] = tally_json(tally, f.all);
    }
    return {{"queries", f.all.queries},
            {"responses", f.all.responses},
            {"transport", std::move(transports)},
            {"family", {{"ipv4", tally_json(f.ipv4, f.all)}, {"ipv6", tally_json(f.ipv6, f.all)}}}};
}

Json content_json(const TraceFigures& f) {
    return {{"rate_over_time",
             {{"start_ns", f.bins.start()},
              {"bin_s", f.bins.width_s()},
              {"queries", f.bins.queries()}}},
            {"sources", sources_json(f)},
            {"names", names_json(f)},
            {"retransmits", retransmits_json(f)},
            {"types", named_json(named(f.types, type_name))},
            {"no_question", f.no_question},
            {"opcodes", named_json(named(f.opcodes, opcode_name))},
            {"edns", edns_json(f)},
            {"rd", f.recursion_desired},
            {"rcodes", named_json(named(f.rcodes, rcode_name))},
            {"truncated", f.truncated},
            {"tcp",
             {{"connections", f.connections.connections()},
              {"by_queries", named_json(named(f.connections.by_queries(), number_text))}}},
            {"pairs",
             {{"matched", f.pairs.matched},
              {"unanswered", f.pairs.unanswered},
              {"unmatched_responses", f.pairs.unmatched_responses},
              {"early_responses", f.pairs.early_responses}}},
            {"handshakes", handshakes_json(f.handshakes)},
            {"rtt_us", distribution_json(f.rtt)},
            {"rtt_percentiles_us", percentiles_json(f.rtt)}};
}

} // namespace

std::string info_json(const FileFacts& file, const TraceFigures& f) {
    Json out = file_json(file);
    for (const Json& part : {queries_json(f), time_json(f), content_json(f)}) {
        out.update(part);
    }
    return json_text(out);
}

} // namespace reprise::mutator
