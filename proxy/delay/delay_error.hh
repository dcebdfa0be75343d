#pragma once
// How far packets left from when they were due: a distribution in constant memory.

#include "core/base/clock.hh"

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::proxy {

/// Counts |written - due| in buckets of at most 3.2 % (below 64 ns: of 1 ns); the maximum is exact.
class DelayError {
public:
    void add(Nanoseconds error);

    [[nodiscard]] std::uint64_t packets() const { return packets_; }

    [[nodiscard]] Nanoseconds max() const { return max_; }

    /// The value at a share from 0 to 1 by nearest rank: its bucket's upper end, at most max().
    [[nodiscard]] Nanoseconds quantile(double share) const;

private:
    static constexpr unsigned kSteps = 32; ///< buckets for each doubling

    static size_t bucket_of(std::uint64_t value);
    static std::uint64_t upper_end(size_t bucket);

    std::array<std::uint64_t, size_t{kSteps} * 60> buckets_{};
    std::uint64_t packets_ = 0;
    Nanoseconds max_ = 0;
};

} // namespace reprise::proxy
