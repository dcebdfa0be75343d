#pragma once
// A rate of queries that changes with time.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::mutator {

/// Where the rate bends: `rate` queries/s at `seconds` from the first query.
struct RatePoint {
    double seconds = 0;
    double rate = 0;
};

/// Linear between the points; before the first its rate, behind the last its rate. Two points at
/// the same second are a step.
class RateProfile {
public:
    /// At least one point, seconds not falling, rates not negative, the last above 0.
    explicit RateProfile(std::vector<RatePoint> points);

    /// The time in seconds at which `count` queries (not necessarily whole ones) are due: the
    /// inverse of the rate's integral. `count` must not fall from call to call.
    double time_of(double count);

private:
    /// Of the piece between points piece_ and piece_ + 1.
    [[nodiscard]] double piece_queries() const;

    std::vector<RatePoint> points_;
    size_t piece_ = 0;
    double before_ = 0; ///< queries due before the piece
};

} // namespace reprise::mutator
