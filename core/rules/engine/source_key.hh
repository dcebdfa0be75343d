#pragma once
// Choices that stick to a source address: a keyed hash of it, so that nothing is stored and a
// source is treated alike in every run with the same seed, in any file of the trace.

#include "core/base/address.hh"

#include <cstdint>
#include <vector>

namespace reprise::rules {

/// Different numbers from one seed, one for each `use` (SplitMix64's finalizer).
std::uint64_t mixed_seed(std::uint64_t seed, std::uint64_t use);

/// XXH3 of the address with the key as its seed. Not secret: it spreads, it does not hide.
std::uint64_t source_key(const IpAddress& address, std::uint64_t key);

/// Draws by weights with a uniform 64-bit number in place of a random generator.
class StickyChoice {
public:
    /// At least one; not negative, with a positive sum.
    explicit StickyChoice(const std::vector<double>& weights);

    [[nodiscard]] std::uint32_t draw(std::uint64_t uniform) const;

private:
    std::vector<std::uint64_t> limits_; ///< where the next choice begins; one less than choices
};

} // namespace reprise::rules
