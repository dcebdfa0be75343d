#include "mutator/rules/time/rate_profile.hh"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace reprise::mutator {

RateProfile::RateProfile(std::vector<RatePoint> points) : points_(std::move(points)) {
    if (points_.front().seconds > 0) {
        points_.insert(points_.begin(), RatePoint{.seconds = 0, .rate = points_.front().rate});
    }
}

double RateProfile::piece_queries() const {
    const RatePoint& from = points_[piece_];
    const RatePoint& to = points_[piece_ + 1];
    return (to.seconds - from.seconds) * (from.rate + to.rate) / 2;
}

// With rate a at the piece's beginning and slope s, q queries take the x for which
// a x + s x^2 / 2 = q: x = 2 q / (a + sqrt(a^2 + 2 s q)), which also holds for s = 0.
double RateProfile::time_of(double count) {
    for (; piece_ + 1 < points_.size() && before_ + piece_queries() < count; ++piece_) {
        before_ += piece_queries();
    }
    const RatePoint& from = points_[piece_];
    const double due = count - before_;
    if (due <= 0) {
        return from.seconds;
    }
    double slope = 0;
    if (piece_ + 1 < points_.size()) {
        slope =
            (points_[piece_ + 1].rate - from.rate) / (points_[piece_ + 1].seconds - from.seconds);
    }
    const double root = std::sqrt(std::max(0.0, from.rate * from.rate + 2 * slope * due));
    return from.seconds + 2 * due / (from.rate + root);
}

} // namespace reprise::mutator
