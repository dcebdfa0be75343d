#include "mutator/info/trace_info.hh"

#include "core/base/text.hh"
#include "core/dns/message.hh"
#include "core/trace/pairs.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/wire/query.hh"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <iterator>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::mutator {

void DistinctSketch::add(std::uint64_t hash) {
    const std::uint64_t rest = hash << kBits | 1U << (kBits - 1); // ends the count of zeros
    auto& longest = registers_.at(hash >> (64 - kBits));
    longest = std::max(longest, static_cast<std::uint8_t>(std::countl_zero(rest) + 1));
}

std::uint64_t DistinctSketch::estimate() const {
    const auto size = static_cast<double>(registers_.size());
    double sum = 0;
    for (const std::uint8_t longest : registers_) {
        sum += std::ldexp(1.0, -longest);
    }
    const double raw = 0.7213 / (1 + 1.079 / size) * size * size / sum;
    const auto empty = static_cast<double>(std::ranges::count(registers_, 0));
    const bool few = raw <= 2.5 * size && empty > 0;
    return static_cast<std::uint64_t>(std::llround(few ? size * std::log(size / empty) : raw));
}

std::uint64_t TopKeys::distinct() const {
    return error_ == 0 ? size() : std::max<std::uint64_t>(most_, sketch_.estimate());
}

void TopKeys::add(std::string_view key) {
    if (count(key, 1)) {
        sketch_.add(XXH3_64bits(key.data(), key.size()));
        most_ = std::max(most_, size());
    }
    if (size() > 2 * kept_) {
        purge();
    }
}

/// Adds to the key's count; whether it is new.
bool TopKeys::count(std::string_view key, std::uint64_t times) {
    const std::uint64_t hash = XXH3_64bits_withSeed(key.data(), key.size(), seed_);
    const auto [number, fresh] =
        numbers_.find_or_add(std::bit_cast<Numbers::Key>(hash), static_cast<std::uint32_t>(size()));
    if (fresh) {
        counted_.push_back({.begin = static_cast<std::uint32_t>(text_.size()),
                            .length = static_cast<std::uint32_t>(key.size())});
        text_ += key;
    }
    counted_[number].count += times;
    return fresh;
}

void TopKeys::purge() {
    const std::vector<Counted> old = std::exchange(counted_, {});
    const std::string text = std::exchange(text_, {});
    std::vector<std::uint64_t> counts;
    std::ranges::transform(old, std::back_inserter(counts), &Counted::count);
    const auto last_kept = counts.begin() + static_cast<std::ptrdiff_t>(kept_ - 1);
    std::ranges::nth_element(counts, last_kept, std::greater{});
    const std::uint64_t less = *last_kept;
    numbers_ = {};
    for (const Counted& one : old) {
        if (one.count > less) {
            count(std::string_view(text).substr(one.begin, one.length), one.count - less);
        }
    }
    error_ += less;
}

Named TopKeys::top(size_t most) const {
    Named all;
    all.reserve(size());
    for (const Counted& one : counted_) {
        all.emplace_back(text_.substr(one.begin, one.length), one.count);
    }
    const size_t shown = std::min(most, all.size());
    std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(shown), Greatest{});
    all.resize(shown);
    return all;
}

namespace {

constexpr size_t kCurvePoints = 100;
constexpr double kMostExponent = 5;

/// Sources of neighboring ranks, taken together; so millions of sources cost as much as thousands.
struct RankGroup {
    double log_rank = 0;
    double sources = 0;
    double queries = 0;
};

/// The first 4,096 ranks stand alone, then groups are 1/64 of their rank.
std::vector<RankGroup> group_ranks(const std::vector<std::uint64_t>& sorted) {
    constexpr size_t kAlone = 4'096;
    constexpr size_t kParts = 64;
    std::vector<RankGroup> out;
    for (size_t begin = 0; begin < sorted.size();) {
        const size_t size = std::min(begin < kAlone ? 1 : begin / kParts, sorted.size() - begin);
        RankGroup group{.sources = static_cast<double>(size)};
        const double middle = static_cast<double>(begin + 1) + static_cast<double>(size - 1) / 2;
        group.log_rank = std::log(middle);
        for (size_t i = begin; i < begin + size; ++i) {
            group.queries += static_cast<double>(sorted[i]);
        }
        out.push_back(group);
        begin += size;
    }
    return out;
}

/// Mean logarithm of the rank where rank n has the weight n^-exponent.
double expected_log_rank(const std::vector<RankGroup>& groups, double exponent) {
    double weights = 0;
    double sum = 0;
    for (const RankGroup& group : groups) {
        const double weight = group.sources * std::exp(-exponent * group.log_rank);
        weights += weight;
        sum += weight * group.log_rank;
    }
    return sum / weights;
}

/// The likelihood is greatest where the expected mean logarithm of the rank is the observed one;
/// the former falls with the exponent.
double fit_zipf(const std::vector<RankGroup>& groups) {
    double queries = 0;
    double observed = 0;
    for (const RankGroup& group : groups) {
        queries += group.queries;
        observed += group.queries * group.log_rank;
    }
    observed /= queries;
    double low = 0;
    double high = kMostExponent;
    if (groups.size() < 2 || expected_log_rank(groups, low) <= observed) {
        return 0;
    }
    for (int i = 0; i < 40; ++i) {
        const double middle = (low + high) / 2;
        (expected_log_rank(groups, middle) > observed ? low : high) = middle;
    }
    return (low + high) / 2;
}

} // namespace

Skew measure_skew(std::vector<std::uint64_t> queries) {
    Skew out;
    std::ranges::sort(queries, std::greater{});
    if (queries.empty() || queries.front() == 0) {
        return out;
    }
    out.zipf = fit_zipf(group_ranks(queries));
    for (size_t i = 1; i < queries.size(); ++i) {
        queries[i] += queries[i - 1];
    }
    const size_t all = queries.size();
    const auto share_of = [&](size_t sources) {
        return static_cast<double>(queries[std::max<size_t>(sources, 1) - 1]) /
               static_cast<double>(queries.back());
    };
    out.busiest_1_percent = share_of((all + 99) / 100);
    out.busiest_10_percent = share_of((all + 9) / 10);
    for (size_t i = 0; i < kCurvePoints; ++i) {
        const double at = static_cast<double>(i) / (kCurvePoints - 1);
        const auto rank = static_cast<size_t>(std::llround(std::pow(static_cast<double>(all), at)));
        if (out.curve.empty() || out.curve.back().sources < rank) {
            out.curve.push_back({.sources = rank, .share = share_of(std::min(rank, all))});
        }
    }
    return out;
}

void RateBins::add(Nanoseconds time) {
    if (queries_.empty()) {
        start_ = time;
    }
    // Unsigned, so that no pair of times overflows.
    const std::uint64_t since =
        time > start_ ? static_cast<std::uint64_t>(time) - static_cast<std::uint64_t>(start_) : 0;
    while (since / width_ >= kMost) {
        merge();
    }
    const size_t bin = since / width_;
    queries_.resize(std::max(queries_.size(), bin + 1));
    ++queries_[bin];
}

void RateBins::merge() {
    width_ *= 2;
    const size_t bins = (queries_.size() + 1) / 2;
    for (size_t i = 0; i < bins; ++i) {
        const std::uint64_t second = 2 * i + 1 < queries_.size() ? queries_[2 * i + 1] : 0;
        queries_[i] = queries_[2 * i] + second;
    }
    queries_.resize(bins);
}

void HandshakeFigures::add(const trace::TcpHandshake& times) {
    rtt.add(times.ack - times.syn);
    to_server.add(times.syn_ack - times.syn);
    to_client.add(times.ack - times.syn_ack);
}

std::string_view HandshakeFigures::capture_point() const {
    if (rtt.count() == 0) {
        return {};
    }
    const std::int64_t server = to_server.quantile(0.5);
    const std::int64_t client = to_client.quantile(0.5);
    if (10 * std::min(server, client) >= rtt.quantile(0.5)) {
        return "between";
    }
    return server <= client ? "server" : "client";
}

double share(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string utc(Nanoseconds time) {
    const Nanoseconds rest = (time % kSecond + kSecond) % kSecond;
    const auto seconds = static_cast<std::time_t>((time - rest) / kSecond);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(seconds), rest);
}

namespace {

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
    followed_.advance(0);
    const std::uint64_t* const known = followed_.find(connection);
    const std::uint64_t before = known != nullptr ? *known : 0;
    followed_.add(connection) = before + 1;
    ++by_queries_[before + 1];
    if (before == 0) {
        ++connections_;
    } else if (--by_queries_[before] == 0) {
        by_queries_.erase(before);
    }
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
    std::ranges::partial_sort_copy(counts, top, Greatest{});
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
    figures_.pairs = pairer_.counts();
    figures_.skew = measure_skew(figures_.source_queries);
}

} // namespace reprise::mutator
