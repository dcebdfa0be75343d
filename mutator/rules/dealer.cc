#include "mutator/rules/dealer.hh"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace reprise::mutator {

Dealer::Dealer(const std::vector<double>& weights) : shares_(weights), credit_(weights.size()) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& share : shares_) {
        share /= sum;
    }
}

size_t Dealer::deal() {
    for (size_t i = 0; i < shares_.size(); ++i) {
        credit_[i] += shares_[i];
    }
    const auto most = std::ranges::max_element(credit_);
    *most -= 1;
    return static_cast<size_t>(most - credit_.begin());
}

} // namespace reprise::mutator
