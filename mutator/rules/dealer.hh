#pragma once
// Deals values by their weights, evenly: at every point each value was dealt its share of what was
// dealt, but for a few.
//
// Each deal gives every value its weight as credit and goes to the one with most, which pays one.
// Random draws would be off by the square root of their number: 0.16 % of 100,000 at a half.

#include <cstddef>
#include <vector>

namespace reprise::mutator {

class Dealer {
public:
    /// At least one; not negative, with a positive sum.
    explicit Dealer(const std::vector<double>& weights);

    /// Index of the next value.
    size_t deal();

private:
    std::vector<double> shares_; ///< sum 1
    std::vector<double> credit_;
};

} // namespace reprise::mutator
