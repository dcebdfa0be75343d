#include "proxy/statistics.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/histogram.hh"
#include "core/base/json.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/service.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::proxy {

namespace {

constexpr size_t kNamedUnmapped = 100;

std::uint64_t count_of(const Statistics& statistics, Verdict verdict) {
    return statistics.verdicts[static_cast<size_t>(verdict)];
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
    dropped +=
        outcome.traffic == Traffic::kDatagram && outcome.verdict == Verdict::kUnmapped ? 1 : 0;
    connections += outcome.traffic == Traffic::kConnection ? 1 : 0;
    pushed += outcome.traffic == Traffic::kPushed ? 1 : 0;
}

std::string to_json(const Statistics& s) {
    const auto microseconds = [](Nanoseconds time) {
        return static_cast<double>(time) / double{kMicrosecond};
    };
    const Json json{{"schema", 1},
                    {"side", s.side},
                    {"packets",
                     {{"read", s.read},
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
                      {"unread", s.unread}}},
                    {"malformed", malformed_by_kind(s)},
                    {"upstream",
                     {{"udp_queries", s.datagrams},
                      {"udp_dropped", s.dropped},
                      {"tcp_connections", s.connections},
                      {"tcp_queries", s.pushed}}},
                    {"unmapped", unmapped(s)},
                    {"unmapped_others", s.unmapped.others()},
                    {"unlisted", s.unlisted},
                    {"delay_error_us",
                     {{"p50", microseconds(s.delay_error.quantile(0.5))},
                      {"p99", microseconds(s.delay_error.quantile(0.99))},
                      {"max", microseconds(s.delay_error.max())},
                      {"packets", s.delay_error.count()}}},
                    // What makes a clean run say less than it seems to.
                    {"warnings", s.realtime_refused.empty() ? Json::array()
                                                            : Json::array({s.realtime_refused})},
                    {"cpu_s", cpu_seconds()},
                    {"started_ns", s.started},
                    {"counted_until_ns", s.counted_until}};
    return json.dump(1) + "\n";
}

} // namespace reprise::proxy
