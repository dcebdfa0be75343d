// The two renderings of what a trace holds.

#include "core/clock.hh"
#include "core/result_file.hh"
#include "mutator/dns_names.hh"
#include "mutator/histogram.hh"
#include "mutator/json.hh"
#include "mutator/trace_info.hh"

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
#include <vector>

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

double share(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double percent(std::uint64_t part, std::uint64_t whole) { return 100 * share(part, whole); }

double microseconds(double nanoseconds) { return nanoseconds / 1e3; }

double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

/// UTC, e.g. "2016-10-06T13:55:00.009660000Z".
std::string utc(Nanoseconds time) {
    const Nanoseconds rest = (time % kSecond + kSecond) % kSecond;
    const auto seconds = static_cast<std::time_t>((time - rest) / kSecond);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(seconds), rest);
}

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t number) {
    const std::string digits = std::to_string(number);
    std::string text;
    for (size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) {
            text += ',';
        }
        text += digits[i];
    }
    return text;
}

/// Counts by name, the greatest first; ties by name.
using Named = std::vector<std::pair<std::string, std::uint64_t>>;

template <typename Counts, typename Name> Named named(const Counts& counts, Name name) {
    Named out;
    for (const auto& [key, count] : counts) {
        out.emplace_back(name(key), count);
    }
    std::ranges::sort(out, [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    return out;
}

std::string number_text(std::uint64_t number) { return std::to_string(number); }

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
        lines.add("  " + name, tally_text(tally));
    }
    lines.add("  IPv4", tally_text(f.ipv4));
    lines.add("  IPv6", tally_text(f.ipv6));
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

std::uint64_t top_sum(const TraceFigures& f, size_t count) {
    std::uint64_t sum = 0;
    for (const auto& [address, queries] : f.top_sources(count)) {
        sum += queries;
    }
    return sum;
}

void add_sources(Lines& lines, const TraceFigures& f) {
    lines.add("sources",
              fmt::format(
                  "{} distinct; the busiest asks {:.1f} %, 10 ask {:.1f} %, 100 ask {:.1f} %",
                  grouped(f.sources.size()), percent(top_sum(f, 1), f.all.queries),
                  percent(top_sum(f, 10), f.all.queries), percent(top_sum(f, 100), f.all.queries)));
    Named top;
    for (const auto& [address, queries] : f.top_sources(5)) {
        top.emplace_back(address.text(), queries);
    }
    lines.add("  busiest", top, f.all.queries);
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
    const auto udp = f.transports.find("udp");
    const std::uint64_t queries =
        f.all.queries - (udp == f.transports.end() ? 0 : udp->second.queries);
    lines.add("TCP connections",
              fmt::format("{} with queries, {:.2f} queries each in the mean, {} at most",
                          grouped(connections), share(queries, connections),
                          grouped(f.connections.by_queries().rbegin()->first)));
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

std::string tally_json(const Tally& tally) {
    return JsonObject()
        .number("queries", tally.queries)
        .number("responses", tally.responses)
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

std::string sources_json(const TraceFigures& f) {
    std::string top;
    for (const auto& [address, queries] : f.top_sources(10)) {
        top += top.empty() ? "" : ", ";
        top += JsonObject()
                   .string("address", address.text())
                   .number("queries", queries)
                   .number("share", share(queries, f.all.queries))
                   .text();
    }
    return JsonObject()
        .number("distinct", f.sources.size())
        .number("top_1_share", share(top_sum(f, 1), f.all.queries))
        .number("top_10_share", share(top_sum(f, 10), f.all.queries))
        .number("top_100_share", share(top_sum(f, 100), f.all.queries))
        .raw("top", "[" + top + "]")
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
        .raw("counters", counters.text());
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

std::string info_text(const FileFacts& file, const TraceFigures& figures) {
    Lines lines;
    add_file(lines, file);
    add_totals(lines, figures);
    add_time(lines, figures);
    add_sources(lines, figures);
    add_queries(lines, figures);
    add_connections(lines, figures);
    add_responses(lines, figures);
    for (const auto& [name, value] : file.counters) {
        lines.add("reader", fmt::format("{} {}", name, grouped(value)));
    }
    return lines.take();
}

std::string info_json(const FileFacts& file, const TraceFigures& f) {
    JsonObject out;
    JsonObject transports;
    for (const auto& [name, tally] : f.transports) {
        transports.raw(name, tally_json(tally));
    }
    add_file_json(out, file);
    out.number("queries", f.all.queries)
        .number("responses", f.all.responses)
        .raw("transport", transports.text())
        .raw("family",
             JsonObject().raw("ipv4", tally_json(f.ipv4)).raw("ipv6", tally_json(f.ipv6)).text());
    add_time_json(out, f);
    return out.raw("sources", sources_json(f))
        .raw("types", named_json(named(f.types, type_name)))
        .number("no_question", f.no_question)
        .raw("opcodes", named_json(named(f.opcodes, opcode_name)))
        .raw("edns", edns_json(f))
        .number("rd", f.recursion_desired)
        .raw("rcodes", named_json(named(f.rcodes, rcode_name)))
        .number("truncated", f.truncated)
        .raw("tcp", connections_json(f))
        .raw("pairs", pairs_json(f.pairs))
        .raw("rtt_us", distribution_json(f.rtt))
        .text();
}

} // namespace reprise::mutator
