// What a trace holds, for people and for programs.

#include "core/base/clock.hh"
#include "core/base/histogram.hh"
#include "core/base/json.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "mutator/info/trace_info.hh"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::mutator {
namespace {

/// Lines "label   text", labels padded to one width.
class Lines {
public:
    void add(std::string_view label, std::string_view text) {
        fmt::format_to(std::back_inserter(text_), "{:<16}{}\n", label, text);
    }

    /// "NAME count (x %)" for the first `most`, then how many more.
    void add(std::string_view label, const Named& counts, std::uint64_t whole, size_t most = 10) {
        if (counts.empty()) {
            return;
        }
        std::string text;
        for (size_t i = 0; i < std::min(most, counts.size()); ++i) {
            const auto& [name, count] = counts[i];
            fmt::format_to(std::back_inserter(text), "{}{} {} ({:.1f} %)", i == 0 ? "" : ", ", name,
                           grouped(count), percent(count, whole));
        }
        if (counts.size() > most) {
            fmt::format_to(std::back_inserter(text), ", {} more", counts.size() - most);
        }
        add(label, text);
    }

    [[nodiscard]] std::string take() { return std::move(text_); }

private:
    std::string text_;
};

std::string tally_text(const Tally& tally) {
    return fmt::format("{} queries, {} responses", grouped(tally.queries),
                       grouped(tally.responses));
}

std::string tally_text(const Tally& tally, const Tally& all) {
    return fmt::format("{} ({:.1f} % of the queries)", tally_text(tally),
                       percent(tally.queries, all.queries));
}

void add_file(Lines& lines, const FileFacts& file) {
    lines.add("trace", file.path);
    lines.add("format", file.description);
    lines.add("packets", grouped(file.packets));
    if (!file.trouble.empty()) {
        lines.add("trouble", file.trouble);
    }
}

void add_totals(Lines& lines, const TraceFigures& f) {
    lines.add("messages", tally_text(f.all));
    for (const auto& [name, tally] : f.transports) {
        lines.add("  " + name, tally_text(tally, f.all));
    }
    lines.add("  IPv4", tally_text(f.ipv4, f.all));
    lines.add("  IPv6", tally_text(f.ipv6, f.all));
}

std::string gap_text(const Histogram& gaps) {
    return fmt::format("mean {:.3f} us, sd {:.3f}, min {:.3f}, median {:.3f}, p95 {:.3f}, p99 "
                       "{:.3f}, max {:.3f}",
                       microseconds(gaps.mean()), microseconds(gaps.standard_deviation()),
                       microseconds(gaps.min()), microseconds(gaps.quantile(0.5)),
                       microseconds(gaps.quantile(0.95)), microseconds(gaps.quantile(0.99)),
                       microseconds(gaps.max()));
}

void add_time(Lines& lines, const TraceFigures& f) {
    lines.add("first query", utc(f.first));
    lines.add("last query", utc(f.last));
    lines.add("span", fmt::format("{:.6f} s", static_cast<double>(f.last - f.first) / 1e9));
    lines.add("rate",
              fmt::format("{:.2f} queries/s in the mean, {} in the busiest second ({:%H:%M:%S})",
                          f.rate(), grouped(f.peak.queries()), fmt::gmtime(f.peak.second())));
    if (f.gaps.count() > 0) {
        lines.add("interarrival", gap_text(f.gaps));
    }
    if (f.went_back > 0) {
        lines.add("out of order", grouped(f.went_back) + " queries older than the one before");
    }
}

void add_sources(Lines& lines, const TraceFigures& f) {
    lines.add(
        "sources",
        fmt::format("{} distinct; the busiest asks {:.1f} %, 10 ask {:.1f} %, 100 ask {:.1f} %",
                    grouped(f.sources.size()), percent(f.top_queries(1), f.all.queries),
                    percent(f.top_queries(10), f.all.queries),
                    percent(f.top_queries(100), f.all.queries)));
    Named top;
    for (const auto& [address, queries] : f.top_sources(5)) {
        top.emplace_back(address.text(), queries);
    }
    lines.add("  busiest", top, f.all.queries);
    lines.add("  skew", fmt::format("the busiest 1 % of sources ask {:.1f} %, the busiest 10 % ask "
                                    "{:.1f} %; Zipf exponent {:.3f}",
                                    100 * f.skew.busiest_1_percent, 100 * f.skew.busiest_10_percent,
                                    f.skew.zipf));
    if (f.retransmits > 0) {
        lines.add("retransmits",
                  fmt::format("{} UDP queries ({:.1f} %) repeat one of the same source, port, id "
                              "and question within {} s",
                              grouped(f.retransmits), percent(f.retransmits, f.all.queries),
                              kRetransmitTime / kSecond));
    }
}

void add_names(Lines& lines, const TraceFigures& f) {
    const TopKeys& names = f.names;
    if (names.distinct() == 0) {
        return;
    }
    Named top;
    for (const auto& [name, count] : names.top(5)) {
        top.emplace_back(name_text(bytes_of(name)), count);
    }
    const bool exact = names.error() == 0;
    lines.add(
        "names",
        exact ? grouped(names.size()) + " distinct, without regard to case"
              : fmt::format("about {} distinct (within {:.1f} %); counts are at most {} too low",
                            grouped(names.distinct()), 200 * DistinctSketch::kStandardError,
                            grouped(names.error())));
    lines.add("  most asked", top, f.all.queries);
}

void add_queries(Lines& lines, const TraceFigures& f) {
    const std::uint64_t all = f.all.queries;
    lines.add("types", named(f.types, type_name), all);
    if (f.no_question > 0) {
        lines.add("  no question", grouped(f.no_question) + " queries without a readable question");
    }
    lines.add("opcodes", named(f.opcodes, opcode_name), all);
    lines.add("EDNS",
              fmt::format("{} queries ({:.1f} %), DO in {} ({:.1f} %)", grouped(f.edns),
                          percent(f.edns, all), grouped(f.dnssec_ok), percent(f.dnssec_ok, all)));
    lines.add("  sizes", named(f.edns_sizes, number_text), f.edns, 6);
    lines.add("RD", fmt::format("{} queries ({:.1f} %)", grouped(f.recursion_desired),
                                percent(f.recursion_desired, all)));
}

void add_connections(Lines& lines, const TraceFigures& f) {
    const std::uint64_t connections = f.connections.connections();
    if (connections == 0) {
        return;
    }
    lines.add("TCP connections",
              fmt::format("{} with queries, {:.2f} queries each in the mean, {} at most",
                          grouped(connections), share(f.connections.queries(), connections),
                          grouped(f.connections.by_queries().rbegin()->first)));
}

std::string quartiles(const Histogram& times) {
    return fmt::format("median {:.1f} us, q1 {:.1f}, q3 {:.1f}, p95 {:.1f}, max {:.1f}",
                       microseconds(times.quantile(0.5)), microseconds(times.quantile(0.25)),
                       microseconds(times.quantile(0.75)), microseconds(times.quantile(0.95)),
                       microseconds(times.max()));
}

void add_handshakes(Lines& lines, const TraceFigures& f) {
    const HandshakeFigures& shakes = f.handshakes;
    if (shakes.rtt.count() == 0) {
        return;
    }
    lines.add("TCP handshakes", fmt::format("{} whole; RTT (SYN to ACK) {}",
                                            grouped(shakes.rtt.count()), quartiles(shakes.rtt)));
    lines.add("  to server", "SYN to SYN-ACK: " + quartiles(shakes.to_server));
    lines.add("  to client", "SYN-ACK to ACK: " + quartiles(shakes.to_client));
    lines.add("  captured", shakes.capture_point() == "between"
                                ? std::string("between client and server")
                                : fmt::format("at the {}", shakes.capture_point()));
}

void add_responses(Lines& lines, const TraceFigures& f) {
    if (f.all.responses == 0) {
        return;
    }
    lines.add("rcodes", named(f.rcodes, rcode_name), f.all.responses);
    lines.add("truncated", fmt::format("{} responses ({:.1f} %)", grouped(f.truncated),
                                       percent(f.truncated, f.all.responses)));
    lines.add("paired", fmt::format("{} queries with their response, {} without; {} responses "
                                    "without a query",
                                    grouped(f.pairs.matched), grouped(f.pairs.unanswered),
                                    grouped(f.pairs.unmatched_responses)));
    if (f.rtt.count() > 0) {
        lines.add("response time",
                  fmt::format("median {:.1f} us, p99 {:.1f}, max {:.1f} at the capture point",
                              microseconds(f.rtt.quantile(0.5)), microseconds(f.rtt.quantile(0.99)),
                              microseconds(f.rtt.max())));
    }
}

} // namespace

std::string info_text(const FileFacts& file, const TraceFigures& figures) {
    Lines lines;
    add_file(lines, file);
    add_totals(lines, figures);
    add_time(lines, figures);
    add_sources(lines, figures);
    add_names(lines, figures);
    add_queries(lines, figures);
    add_connections(lines, figures);
    add_handshakes(lines, figures);
    add_responses(lines, figures);
    for (const auto& [name, value] : file.counters) {
        lines.add("reader", fmt::format("{} {}", name, grouped(value)));
    }
    for (const std::string& loss : file.losses) {
        lines.add("lost", loss);
    }
    return lines.take();
}

namespace {

constexpr std::array<std::pair<const char*, double>, 7> kPoints{{{"p1", 0.01},
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
    for (const auto& [name, part] : kPoints) {
        out[name] = microseconds(histogram.quantile(part));
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
    return {{"count", shakes.rtt.count()},
            {"capture_point", text_or_null(shakes.capture_point())},
            {"rtt_us", distribution_json(shakes.rtt)},
            {"to_server_us", distribution_json(shakes.to_server)},
            {"to_client_us", distribution_json(shakes.to_client)},
            {"rtt_percentiles_us", percentiles_json(shakes.rtt)}};
}

Json names_json(const TraceFigures& f) {
    const TopKeys& names = f.names;
    const auto row = [&f](const auto& name) {
        return Json{{"name", name_text(bytes_of(name.first))},
                    {"queries", name.second},
                    {"share", share(name.second, f.all.queries)}};
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
