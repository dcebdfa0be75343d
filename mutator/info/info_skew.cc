#include "mutator/info/info_skew.hh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr size_t kCurvePoints = 100;
constexpr double kMostExponent = 5;

/// Sources of neighbouring ranks, taken together; so millions of sources cost as much as thousands.
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

} // namespace reprise::mutator
