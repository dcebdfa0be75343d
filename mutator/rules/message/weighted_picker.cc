#include "mutator/rules/message/weighted_picker.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace reprise::mutator {

WeightedPicker::WeightedPicker(const std::vector<double>& weights, std::uint64_t seed)
    : shares_(weights), credit_(weights.size()), random_(seed) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& share : shares_) {
        share /= sum;
    }
    std::ranges::generate(pool_, [this] { return draw(); });
}

size_t WeightedPicker::draw() {
    for (size_t i = 0; i < shares_.size(); ++i) {
        credit_[i] += shares_[i];
    }
    const auto most = std::ranges::max_element(credit_);
    *most -= 1;
    return static_cast<size_t>(most - credit_.begin());
}

size_t WeightedPicker::pick() {
    return std::exchange(pool_[random_.bits() % pool_.size()], draw());
}

} // namespace reprise::mutator
