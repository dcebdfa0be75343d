#include "mutator/rules/dealer.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace reprise::mutator {

Dealer::Dealer(const std::vector<double>& weights, std::uint64_t seed)
    : shares_(weights), credit_(weights.size()), random_(seed) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& share : shares_) {
        share /= sum;
    }
    std::ranges::generate(hand_, [this] { return draw(); });
}

size_t Dealer::draw() {
    for (size_t i = 0; i < shares_.size(); ++i) {
        credit_[i] += shares_[i];
    }
    const auto most = std::ranges::max_element(credit_);
    *most -= 1;
    return static_cast<size_t>(most - credit_.begin());
}

size_t Dealer::deal() { return std::exchange(hand_[random_.bits() % hand_.size()], draw()); }

} // namespace reprise::mutator
