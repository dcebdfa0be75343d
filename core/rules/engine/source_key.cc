#include "core/rules/engine/source_key.hh"

#include "core/base/address.hh"
#include "core/base/mix.hh"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace reprise::rules {

std::uint64_t mixed_seed(std::uint64_t seed, std::uint64_t use) {
    return mix_bits(seed + (use + 1) * kGoldenStep);
}

std::uint64_t source_key(const IpAddress& address, std::uint64_t key) {
    return XXH3_64bits_withSeed(address.bytes.data(), address.size(), key);
}

StickyChoice::StickyChoice(const std::vector<double>& weights) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    double before = 0;
    for (size_t i = 0; i + 1 < weights.size(); ++i) {
        before += weights[i];
        const double limit = std::ldexp(before / sum, 64);
        limits_.push_back(limit < 0x1p64 ? static_cast<std::uint64_t>(limit)
                                         : std::numeric_limits<std::uint64_t>::max());
    }
}

std::uint32_t StickyChoice::draw(std::uint64_t uniform) const {
    // A mix has few choices; counting them all needs no branch.
    return static_cast<std::uint32_t>(
        std::ranges::count_if(limits_, [&](std::uint64_t limit) { return limit <= uniform; }));
}

} // namespace reprise::rules
