#include "proxy/statistics.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/json.hh"
#include "proxy/delay/delay_line.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::proxy {

namespace {

constexpr size_t kNamedUnmapped = 100;

std::uint64_t count_of(const Statistics& statistics, Verdict verdict) {
    return statistics.verdicts[static_cast<size_t>(verdict)];
}

double microseconds(Nanoseconds time) {
    return static_cast<double>(time) / static_cast<double>(kMicrosecond);
}

Json packets(const Statistics& s) {
    return {{"read", s.read},
            {"written", s.written},
            {"rewritten", count_of(s, Verdict::kRewritten)},
            {"passed", count_of(s, Verdict::kPassed)},
            {"unmapped", count_of(s, Verdict::kUnmapped)},
            {"malformed", s.malformed()},
            {"foreign", count_of(s, Verdict::kForeign)},
            {"wrong_source", count_of(s, Verdict::kWrongSource)},
            {"link_local", count_of(s, Verdict::kLinkLocal)},
            {"lost", s.lost},
            {"overflow", s.overflow},
            {"waiting", s.in_line},
            {"refused", s.refused},
            {"unread", s.unread}};
}

Json malformed_by_kind(const Statistics& s) {
    Json out = Json::object();
    for (size_t i = 0; i < kVerdicts; ++i) {
        if (is_malformed(static_cast<Verdict>(i))) {
            out[std::string(kVerdictNames[i])] = s.verdicts[i];
        }
    }
    return out;
}

Json unmapped(const Statistics& s) {
    Json out = Json::array();
    for (const auto& [address, count] : s.unmapped.busiest(kNamedUnmapped)) {
        out.push_back({{"address", address.text()}, {"packets", count}});
    }
    return out;
}

/// What makes a clean run say less than it seems to.
Json warnings(const Statistics& s) {
    return s.realtime_refused.empty() ? Json::array() : Json::array({s.realtime_refused});
}

Json delay_error(const DelayError& error) {
    return {{"p50", microseconds(error.quantile(0.5))},
            {"p99", microseconds(error.quantile(0.99))},
            {"max", microseconds(error.max())},
            {"packets", error.packets()}};
}

/// One metric with its help and type, and the lines "LABELS VALUE" of it.
class Metric {
public:
    Metric(std::string& out, std::string_view name, std::string_view type, std::string_view help)
        : out_(out), name_(name) {
        fmt::format_to(std::back_inserter(out), "# HELP reprise_proxy_{} {}\n", name, help);
        fmt::format_to(std::back_inserter(out), "# TYPE reprise_proxy_{} {}\n", name, type);
    }

    template <typename Value> void add(const std::string& labels, Value value) {
        fmt::format_to(std::back_inserter(out_), "reprise_proxy_{}{} {}\n", name_, labels, value);
    }

private:
    std::string& out_;
    std::string_view name_;
};

void add_packets(std::string& out, const Statistics& s) {
    Metric read(out, "packets_read_total", "counter", "Packets read from the device.");
    read.add("", s.read);
    Metric written(out, "packets_written_total", "counter", "Packets written to the device.");
    written.add("", s.written);
    Metric ends(out, "packets_total", "counter", "Packets read, by what became of them.");
    for (size_t i = 0; i < kVerdicts; ++i) {
        ends.add(fmt::format("{{verdict=\"{}\"}}", kVerdictNames[i]), s.verdicts[i]);
    }
    Metric dropped(out, "dropped_total", "counter", "Packets that went no further, by reason.");
    dropped.add("{reason=\"lost\"}", s.lost);
    dropped.add("{reason=\"overflow\"}", s.overflow);
    dropped.add("{reason=\"refused\"}", s.refused);
    dropped.add("{reason=\"unread\"}", s.unread);
}

void add_delay(std::string& out, const Statistics& s) {
    Metric waiting(out, "waiting_packets", "gauge", "Packets in the delay line.");
    waiting.add("", s.in_line);
    Metric error(out, "delay_error_seconds", "summary", "How late packets left the delay line.");
    for (const double share : {0.5, 0.99}) {
        error.add(fmt::format("{{quantile=\"{}\"}}", share),
                  static_cast<double>(s.delay_error.quantile(share)) / double{kSecond});
    }
    error.add("_count", s.delay_error.packets());
}

} // namespace

void Unmapped::add(const IpAddress& address) {
    const auto found = packets_.find(address);
    if (found != packets_.end()) {
        ++found->second;
    } else if (packets_.size() < kMost) {
        packets_.emplace(address, 1);
    } else {
        ++others_;
    }
}

std::vector<std::pair<IpAddress, std::uint64_t>> Unmapped::busiest(size_t most) const {
    std::vector<std::pair<IpAddress, std::uint64_t>> all(packets_.begin(), packets_.end());
    const auto busier = [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    };
    const auto kept = static_cast<std::ptrdiff_t>(std::min(most, all.size()));
    std::partial_sort(all.begin(), all.begin() + kept, all.end(), busier);
    all.resize(static_cast<size_t>(kept));
    return all;
}

std::uint64_t Statistics::malformed() const {
    std::uint64_t sum = 0;
    for (size_t i = 0; i < kVerdicts; ++i) {
        sum += is_malformed(static_cast<Verdict>(i)) ? verdicts[i] : 0;
    }
    return sum;
}

void Statistics::count(const Outcome& outcome) {
    ++verdicts[static_cast<size_t>(outcome.verdict)];
    datagrams += outcome.traffic == Traffic::kDatagram ? 1 : 0;
    connections += outcome.traffic == Traffic::kConnection ? 1 : 0;
    pushed += outcome.traffic == Traffic::kPushed ? 1 : 0;
}

double cpu_seconds() {
    return static_cast<double>(read_clock(CLOCK_PROCESS_CPUTIME_ID)) / double{kSecond};
}

std::string to_json(const Statistics& s) {
    const Json json{{"schema", 1},
                    {"side", s.side},
                    {"packets", packets(s)},
                    {"malformed", malformed_by_kind(s)},
                    {"upstream",
                     {{"udp_queries", s.datagrams},
                      {"tcp_connections", s.connections},
                      {"tcp_queries", s.pushed}}},
                    {"unmapped", unmapped(s)},
                    {"unmapped_others", s.unmapped.others()},
                    {"delay_error_us", delay_error(s.delay_error)},
                    {"warnings", warnings(s)},
                    {"cpu_s", cpu_seconds()},
                    {"started_ns", s.started},
                    {"counted_until_ns", s.counted_until}};
    return json.dump(1) + "\n";
}

std::string to_prometheus(const Statistics& s) {
    std::string out;
    add_packets(out, s);
    Metric upstream(out, "upstream_total", "counter",
                    "DNS datagrams, SYNs of TCP and TCP segments with PSH, those sent again too "
                    "(beside the meta-DNS-server: their answers).");
    upstream.add("{transport=\"udp\"}", s.datagrams);
    upstream.add("{transport=\"tcp\"}", s.connections);
    upstream.add("{transport=\"tcp_pushed\"}", s.pushed);
    add_delay(out, s);
    Metric cpu(out, "cpu_seconds_total", "counter", "CPU time of the proxy.");
    cpu.add("", cpu_seconds());
    return out;
}

} // namespace reprise::proxy
