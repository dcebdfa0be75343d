#include "mutator/info/trace_info.hh"

#include "core/base/ascii.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/trace/pairs.hh"
#include "core/wire/query.hh"
#include "mutator/info/info_figures.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ranges>
#include <string>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr size_t kMostConnections = 262'144;

void count(Tally& tally, bool response) { ++(response ? tally.responses : tally.queries); }

} // namespace

void PeakSecond::add(Nanoseconds time) {
    const std::int64_t second = time / kSecond;
    Slot& slot = slots_[static_cast<std::uint64_t>(second) % slots_.size()];
    if (slot.second != second) {
        slot = {.second = second, .count = 0};
    }
    if (++slot.count > most_) {
        most_ = slot.count;
        second_ = second;
    }
}

void ConnectionTally::add(std::uint64_t connection) {
    ++queries_;
    ++open_[connection];
    if (open_.size() > kMostConnections) {
        end_oldest();
    }
}

void ConnectionTally::end_oldest() {
    ++by_queries_[open_.begin()->second];
    open_.erase(open_.begin());
}

void ConnectionTally::finish() {
    while (!open_.empty()) {
        end_oldest();
    }
}

std::uint64_t ConnectionTally::connections() const {
    return std::accumulate(by_queries_.begin(), by_queries_.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& item) { return sum + item.second; });
}

double TraceFigures::rate() const {
    return last > first
               ? static_cast<double>(all.queries - 1) * 1e9 / static_cast<double>(last - first)
               : 0;
}

std::vector<SourceCount> TraceFigures::top_sources(size_t count) const {
    const auto counts =
        std::views::iota(std::uint32_t{0}, static_cast<std::uint32_t>(sources.size())) |
        std::views::transform(
            [this](std::uint32_t i) { return SourceCount(sources[i], source_queries[i]); });
    std::vector<SourceCount> top(std::min(count, sources.size()));
    std::ranges::partial_sort_copy(counts, top, [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    return top;
}

std::uint64_t TraceFigures::top_queries(size_t count) const {
    std::uint64_t sum = 0;
    for (const auto& [address, queries] : top_sources(count)) {
        sum += queries;
    }
    return sum;
}

TraceInfo::TraceInfo()
    : pairer_({.keep_bytes = false}, [this](const trace::Exchange& exchange) {
          if (exchange.answered) {
              figures_.rtt.add(exchange.reply_time - exchange.query_time);
          }
      }) {}

void TraceInfo::add(const Query& query) {
    count(figures_.all, query.is_response());
    count(figures_.transports[std::string(transport_name(query.transport))], query.is_response());
    const bool ipv4 = query.source.address.is_v4();
    count(ipv4 ? figures_.ipv4 : figures_.ipv6, query.is_response());
    if (query.is_response()) {
        add_response(query);
    } else {
        add_query(query);
    }
    pairer_.add(query);
}

void TraceInfo::add_time(Nanoseconds time) {
    if (figures_.all.queries == 1) {
        figures_.first = figures_.last = time;
    } else {
        figures_.gaps.add(time - before_);
        figures_.went_back += time < before_ ? 1U : 0U;
        figures_.first = std::min(figures_.first, time);
        figures_.last = std::max(figures_.last, time);
    }
    before_ = time;
    figures_.peak.add(time);
    figures_.bins.add(time);
}

void TraceInfo::add_query(const Query& query) {
    add_time(query.time);
    const std::uint32_t source = figures_.sources.add(query.source.address);
    figures_.source_queries.resize(figures_.sources.size());
    ++figures_.source_queries[source];
    if (const auto header = parse_header(query.message)) {
        ++figures_.opcodes[header->opcode()];
        figures_.recursion_desired += (header->flags & 0x0100U) != 0 ? 1U : 0U;
    }
    add_question(query);
    figures_.retransmits += retransmits_.repeats(query) ? 1U : 0U;
    if (const auto edns = parse_edns(query.message)) {
        ++figures_.edns;
        figures_.dnssec_ok += edns->dnssec_ok ? 1U : 0U;
        ++figures_.edns_sizes[edns->udp_size];
    }
    if (query.connection != 0) {
        figures_.connections.add(query.connection);
    }
}

void TraceInfo::add_question(const Query& query) {
    const auto question = parse_question(query.message);
    if (!question) {
        ++figures_.no_question;
        return;
    }
    ++figures_.types[question->type];
    name_.assign(question->name.begin(), question->name.end());
    std::ranges::transform(name_, name_.begin(), Lower{}); // sizes of labels are no letters
    figures_.names.add(name_);
}

void TraceInfo::add_response(const Query& query) {
    ++figures_.rcodes[full_rcode(query.message)];
    const auto header = parse_header(query.message);
    figures_.truncated += header && header->truncated() ? 1U : 0U;
}

void TraceInfo::finish() {
    pairer_.finish();
    figures_.connections.finish();
    figures_.pairs = pairer_.counts();
    figures_.skew = measure_skew(figures_.source_queries);
}

} // namespace reprise::mutator
