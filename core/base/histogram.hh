#pragma once
// Distribution of durations in constant memory (about 430 KiB whatever the number of samples).

#include <cstdint>
#include <vector>

namespace reprise {

/// Counts values in buckets that are exact below 2048 and at most 0.1 % wide above; count, minimum,
/// maximum, mean and standard deviation are exact. Negative values (a clock that went back) count
/// in the lowest bucket.
class Histogram {
public:
    Histogram();

    void add(std::int64_t value);

    [[nodiscard]] std::uint64_t count() const { return count_; }

    [[nodiscard]] std::int64_t min() const { return min_; }

    [[nodiscard]] std::int64_t max() const { return max_; }

    [[nodiscard]] double mean() const { return mean_; }

    /// Of the samples as a sample (n - 1); 0 below two.
    [[nodiscard]] double standard_deviation() const;

    /// The value at a share from 0 to 1, by nearest rank: the middle of its bucket, within minimum
    /// and maximum. 0 where empty.
    [[nodiscard]] std::int64_t quantile(double share) const;

private:
    std::vector<std::uint64_t> buckets_;
    std::uint64_t count_ = 0;
    std::int64_t min_ = 0;
    std::int64_t max_ = 0;
    double mean_ = 0;
    double squares_ = 0; ///< sum of squared distances from the mean (Welford 1962)
};

} // namespace reprise
