// What a trace holds, for programs.

#include "core/base/clock.hh"
#include "core/dns/words.hh"
#include "core/wire/result_file.hh"
#include "mutator/info/histogram.hh"
#include "mutator/info/info_format.hh"
#include "mutator/info/info_handshakes.hh"
#include "mutator/info/info_names.hh"
#include "mutator/info/info_rate.hh"
#include "mutator/info/info_retransmits.hh"
#include "mutator/info/info_skew.hh"
#include "mutator/info/pairer.hh"
#include "mutator/info/trace_info.hh"
#include "mutator/output/json.hh"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

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

/// "[a, b]" of what text() makes of every element.
template <typename Range, typename Text> std::string array_json(const Range& range, Text text) {
    std::string out;
    for (const auto& element : range) {
        out += out.empty() ? "" : ", ";
        out += text(element);
    }
    return "[" + out + "]";
}

std::string tally_json(const Tally& tally, const Tally& all) {
    return JsonObject()
        .number("queries", tally.queries)
        .number("responses", tally.responses)
        .number("share", share(tally.queries, all.queries))
        .text();
}

std::string named_json(const Named& counts) {
    JsonObject object;
    for (const auto& [name, count] : counts) {
        object.number(name, count);
    }
    return object.text();
}

std::string distribution_json(const Histogram& histogram) {
    JsonObject object;
    object.number("count", histogram.count())
        .number("mean", microseconds(histogram.mean()))
        .number("sd", microseconds(histogram.standard_deviation()))
        .number("min", microseconds(histogram.min()));
    for (const Point& point : kPoints) {
        object.number(point.name, microseconds(histogram.quantile(point.share)));
    }
    return object.number("max", microseconds(histogram.max())).text();
}

/// Percentiles 0 to 100, for a curve.
std::string percentiles_json(const Histogram& histogram) {
    std::string out;
    for (int i = 0; histogram.count() > 0 && i <= 100; ++i) {
        const std::int64_t value = i == 0 ? histogram.min() : histogram.quantile(i / 100.0);
        fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ", ", microseconds(value));
    }
    return "[" + out + "]";
}

std::string handshakes_json(const HandshakeFigures& shakes) {
    const std::string_view point = shakes.capture_point();
    return JsonObject()
        .number("count", shakes.count())
        .raw("capture_point", point.empty() ? "null" : json_string(point))
        .raw("rtt_us", distribution_json(shakes.rtt()))
        .raw("to_server_us", distribution_json(shakes.to_server()))
        .raw("to_client_us", distribution_json(shakes.to_client()))
        .raw("rtt_percentiles_us", percentiles_json(shakes.rtt()))
        .text();
}

std::string names_json(const TraceFigures& f) {
    const TopKeys& names = f.names.keys();
    return JsonObject()
        .number("distinct", names.size())
        .number("exact", names.error() == 0)
        .number("error", names.error())
        .raw("top", array_json(names.top(20),
                               [&](const TopKeys::Entry& entry) {
                                   return JsonObject()
                                       .string("name", shown_name(entry.key))
                                       .number("queries", entry.count)
                                       .number("share", share(entry.count, f.all.queries))
                                       .text();
                               }))
        .text();
}

std::string rate_json(const RateBins& bins) {
    return JsonObject()
        .number("start_ns", bins.start())
        .number("bin_s", bins.width_s())
        .raw("queries", array_json(bins.queries(), number_text))
        .text();
}

std::string retransmits_json(const TraceFigures& f) {
    return JsonObject()
        .number("queries", f.retransmits.count())
        .number("share", share(f.retransmits.count(), f.all.queries))
        .number("window_s", RetransmitCounter::kWindow / kSecond)
        .text();
}

std::string sources_json(const TraceFigures& f) {
    return JsonObject()
        .number("distinct", f.sources.size())
        .number("top_1_share", share(f.top_queries(1), f.all.queries))
        .number("top_10_share", share(f.top_queries(10), f.all.queries))
        .number("top_100_share", share(f.top_queries(100), f.all.queries))
        .raw("top", array_json(f.top_sources(10),
                               [&](const SourceCount& source) {
                                   return JsonObject()
                                       .string("address", source.first.text())
                                       .number("queries", source.second)
                                       .number("share", share(source.second, f.all.queries))
                                       .text();
                               }))
        .number("busiest_1_percent_share", f.skew.busiest_1_percent)
        .number("busiest_10_percent_share", f.skew.busiest_10_percent)
        .number("zipf_exponent", f.skew.zipf)
        .raw("curve", array_json(f.skew.curve,
                                 [](const SkewPoint& point) {
                                     return fmt::format("[{}, {}]", point.sources, point.share);
                                 }))
        .text();
}

std::string edns_json(const TraceFigures& f) {
    return JsonObject()
        .number("queries", f.edns)
        .number("share", share(f.edns, f.all.queries))
        .number("do", f.dnssec_ok)
        .number("do_share", share(f.dnssec_ok, f.all.queries))
        .raw("sizes", named_json(named(f.edns_sizes, number_text)))
        .text();
}

std::string connections_json(const TraceFigures& f) {
    return JsonObject()
        .number("connections", f.connections.connections())
        .raw("by_queries", named_json(named(f.connections.by_queries(), number_text)))
        .text();
}

std::string pairs_json(const PairerCounts& pairs) {
    return JsonObject()
        .number("matched", pairs.matched)
        .number("unanswered", pairs.unanswered)
        .number("unmatched_responses", pairs.unmatched_responses)
        .number("early_responses", pairs.early_responses)
        .text();
}

void add_file_json(JsonObject& out, const FileFacts& file) {
    JsonObject counters;
    for (const auto& [name, value] : file.counters) {
        counters.number(name, value);
    }
    out.number("schema", 1)
        .string("trace", file.path)
        .string("format", file.description)
        .raw("trouble", file.trouble.empty() ? "null" : json_string(file.trouble))
        .number("packets", file.packets)
        .raw("counters", counters.text())
        .raw("losses", json_strings(file.losses));
}

void add_time_json(JsonObject& out, const TraceFigures& f) {
    out.string("first", utc(f.first))
        .string("last", utc(f.last))
        .number("first_ns", f.first)
        .number("last_ns", f.last)
        .number("span_s", static_cast<double>(f.last - f.first) / 1e9)
        .number("rate_qps", f.rate())
        .raw("peak_second", JsonObject()
                                .string("time", utc(f.peak.second() * kSecond))
                                .number("queries", f.peak.queries())
                                .text())
        .raw("interarrival_us", distribution_json(f.gaps))
        .number("out_of_order", f.went_back);
}

} // namespace

std::string info_json(const FileFacts& file, const TraceFigures& f) {
    JsonObject out;
    JsonObject transports;
    for (const auto& [name, tally] : f.transports) {
        transports.raw(name, tally_json(tally, f.all));
    }
    add_file_json(out, file);
    out.number("queries", f.all.queries)
        .number("responses", f.all.responses)
        .raw("transport", transports.text())
        .raw("family", JsonObject()
                           .raw("ipv4", tally_json(f.ipv4, f.all))
                           .raw("ipv6", tally_json(f.ipv6, f.all))
                           .text());
    add_time_json(out, f);
    return out.raw("rate_over_time", rate_json(f.bins))
        .raw("sources", sources_json(f))
        .raw("names", names_json(f))
        .raw("retransmits", retransmits_json(f))
        .raw("types", named_json(named(f.types, type_name)))
        .number("no_question", f.no_question)
        .raw("opcodes", named_json(named(f.opcodes, opcode_name)))
        .raw("edns", edns_json(f))
        .number("rd", f.recursion_desired)
        .raw("rcodes", named_json(named(f.rcodes, rcode_name)))
        .number("truncated", f.truncated)
        .raw("tcp", connections_json(f))
        .raw("pairs", pairs_json(f.pairs))
        .raw("handshakes", handshakes_json(f.handshakes))
        .raw("rtt_us", distribution_json(f.rtt))
        .raw("rtt_percentiles_us", percentiles_json(f.rtt))
        .text();
}

} // namespace reprise::mutator
