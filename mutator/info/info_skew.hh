#pragma once
// How unevenly queries are spread over sources.

#include <cstdint>
#include <vector>

namespace reprise::mutator {

/// The busiest `sources` sources ask this share of the queries.
struct SkewPoint {
    std::uint64_t sources = 0;
    double share = 0;
};

struct Skew {
    double busiest_1_percent = 0;  ///< share of the queries that the busiest 1 % of sources ask
    double busiest_10_percent = 0; ///< (their number rounded up)
    /// The n-th source asks n^-zipf as much as the first: the exponent under which the counts are
    /// the most likely. 0 for sources that are all alike.
    double zipf = 0;
    std::vector<SkewPoint> curve; ///< at most 100 points, spaced evenly in the logarithm
};

/// From the number of queries of every source, in any order.
Skew measure_skew(std::vector<std::uint64_t> queries);

} // namespace reprise::mutator
