#pragma once
// Picks values by their weights, evenly: at every point each value was picked its share of the
// time, within 16 picks. Random draws would be off by the square root of their number.
//
// Every step gives each value its weight as credit and draws the one with most, which pays one.
// What is drawn goes into a small pool from which values are picked at random: else the order would
// repeat itself and could keep step with the trace, where clients ask for A and AAAA in turn.

#include "core/base/random.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::mutator {

class WeightedPicker {
public:
    /// At least one; not negative, with a positive sum.
    WeightedPicker(const std::vector<double>& weights, std::uint64_t seed);

    /// Index of the next value.
    size_t pick();

private:
    size_t draw();

    std::vector<double> shares_; ///< sum 1
    std::vector<double> credit_;
    std::array<size_t, 16> pool_{};
    Random random_;
};

} // namespace reprise::mutator
