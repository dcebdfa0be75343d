#include "core/base/address.hh"
#include "core/tree/fanout.hh"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <ranges>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::tree {
namespace {

/// Heavy: more than 1/64 of a child's fair share of the window.
constexpr double kHeavyPart = 1.0 / 64;
constexpr size_t kMostHeavy = 1024;

std::uint64_t hash(const IpAddress& source, std::uint64_t seed) {
    return XXH3_64bits_withSeed(source.bytes.data(), source.size(), seed);
}

/// Weighted rendezvous score: -weight / ln(u), u uniform in (0, 1).
double score(std::uint64_t hashed, double weight) {
    const double u = (static_cast<double>(hashed >> 11U) + 0.5) * 0x1p-53;
    return -weight / std::log(u);
}

using Count = std::pair<IpAddress, std::uint64_t>;

std::vector<Count> heaviest(const std::unordered_map<IpAddress, std::uint64_t>& counts,
                            double least) {
    std::vector<Count> heavy;
    std::ranges::copy_if(counts, std::back_inserter(heavy),
                         [&](const Count& c) { return static_cast<double>(c.second) > least; });
    std::ranges::sort(heavy, [](const Count& a, const Count& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    heavy.resize(std::min(heavy.size(), kMostHeavy));
    return heavy;
}

} // namespace

void Assignment::add(std::string_view name, double weight) {
    children_.push_back({.seed = XXH3_64bits(name.data(), name.size()), .weight = weight});
}

size_t Assignment::child_of(const IpAddress& source) const {
    if (!heavy_.empty()) {
        const auto found = heavy_.find(source);
        if (found != heavy_.end()) {
            return found->second;
        }
    }
    return children_.size() == 1 ? 0 : by_hash(source);
}

size_t Assignment::by_hash(const IpAddress& source) const {
    const auto best = std::ranges::max_element(children_, {}, [&](const Child& child) {
        return score(hash(source, child.seed), child.weight);
    });
    return static_cast<size_t>(best - children_.begin());
}

void Assignment::place_heavy(
    const std::unordered_map<IpAddress, std::uint64_t>& queries_by_source) {
    if (children_.size() < 2) {
        return;
    }
    std::vector<double> load(children_.size(), 0);
    for (const auto& [source, count] : queries_by_source) {
        load[by_hash(source)] += static_cast<double>(count);
    }
    const double total = std::accumulate(load.begin(), load.end(), 0.0);
    const auto heavy =
        heaviest(queries_by_source, total / static_cast<double>(children_.size()) * kHeavyPart);
    for (const auto& [source, count] : heavy) {
        load[by_hash(source)] -= static_cast<double>(count);
    }
    for (const auto& [source, count] : heavy) {
        const size_t least =
            *std::ranges::min_element(std::views::iota(size_t{0}, load.size()), {},
                                      [&](size_t i) { return load[i] / children_[i].weight; });
        load[least] += static_cast<double>(count);
        heavy_[source] = static_cast<std::uint32_t>(least);
    }
}

} // namespace reprise::tree
