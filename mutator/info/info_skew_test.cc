#include "mutator/info/trace_info.hh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::mutator {
namespace {

std::vector<std::uint64_t> zipf(size_t sources, double exponent, double first) {
    std::vector<std::uint64_t> out;
    for (size_t rank = 1; rank <= sources; ++rank) {
        out.push_back(static_cast<std::uint64_t>(
            std::llround(first * std::pow(static_cast<double>(rank), -exponent))));
    }
    return out;
}

TEST(Skew, FindsTheExponent) {
    EXPECT_NEAR(measure_skew(zipf(1'000, 1.1, 1e9)).zipf, 1.1, 0.001);
    EXPECT_NEAR(measure_skew(zipf(200'000, 0.7, 1e9)).zipf, 0.7, 0.002);
    EXPECT_NEAR(measure_skew(zipf(50, 2, 1e9)).zipf, 2, 0.001);
}

TEST(Skew, OfSourcesThatAreAllAlike) {
    const Skew skew = measure_skew(std::vector<std::uint64_t>(1'000, 7));
    EXPECT_NEAR(skew.zipf, 0, 1e-6);
    EXPECT_DOUBLE_EQ(skew.busiest_1_percent, 0.01);
    EXPECT_DOUBLE_EQ(skew.busiest_10_percent, 0.1);
}

TEST(Skew, SharesRoundTheNumberOfSourcesUp) {
    const Skew skew = measure_skew({1, 70, 1, 8, 20});
    EXPECT_DOUBLE_EQ(skew.busiest_1_percent, 0.7);
    EXPECT_DOUBLE_EQ(skew.busiest_10_percent, 0.7);
}

TEST(Skew, TheCurveGoesFromTheBusiestToAll) {
    const Skew skew = measure_skew(zipf(5'000, 1, 1e6));
    EXPECT_LE(skew.curve.size(), 100U);
    EXPECT_EQ(skew.curve.front().sources, 1U);
    EXPECT_EQ(skew.curve.back().sources, 5'000U);
    EXPECT_DOUBLE_EQ(skew.curve.back().share, 1);
    for (size_t i = 1; i < skew.curve.size(); ++i) {
        EXPECT_GT(skew.curve[i].sources, skew.curve[i - 1].sources);
        EXPECT_GE(skew.curve[i].share, skew.curve[i - 1].share);
    }
}

TEST(Skew, OfNothingAndOfOne) {
    EXPECT_TRUE(measure_skew({}).curve.empty());
    EXPECT_DOUBLE_EQ(measure_skew({5}).busiest_1_percent, 1);
    EXPECT_DOUBLE_EQ(measure_skew({5}).zipf, 0);
}

} // namespace
} // namespace reprise::mutator
