#pragma once
// Queries over time, in bounded memory whatever the trace's length.

#include "core/base/clock.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::mutator {

/// Counts in bins of one width, the first from the first query on. When 512 bins do not reach, the
/// width doubles and neighbours become one. Queries older than the first count in the first bin.
class RateBins {
public:
    static constexpr size_t kMost = 512;

    void add(Nanoseconds time);

    [[nodiscard]] Nanoseconds start() const { return start_; }

    /// A power of two times 1/64 s.
    [[nodiscard]] double width_s() const { return static_cast<double>(width_) / 1e9; }

    /// The last bin may be shorter than its width.
    [[nodiscard]] const std::vector<std::uint64_t>& queries() const { return queries_; }

private:
    void merge();

    Nanoseconds start_ = 0;
    std::uint64_t width_ = kSecond / 64;
    std::vector<std::uint64_t> queries_;
};

} // namespace reprise::mutator
