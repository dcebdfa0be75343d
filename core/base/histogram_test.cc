#include "core/base/histogram.hh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace reprise {
namespace {

TEST(Histogram, EmptyIsAllZero) {
    const Histogram histogram;
    EXPECT_EQ(histogram.quantile(0.5), 0);
    EXPECT_EQ(histogram.standard_deviation(), 0);
}

TEST(Histogram, SmallValuesAreExact) {
    Histogram histogram;
    for (std::int64_t i = 1; i <= 100; ++i) {
        histogram.add(i);
    }
    EXPECT_EQ(histogram.quantile(0), 1);
    EXPECT_EQ(histogram.quantile(0.07), 7);
    EXPECT_EQ(histogram.quantile(0.25), 25);
    EXPECT_EQ(histogram.quantile(0.5), 50);
    EXPECT_EQ(histogram.quantile(0.99), 99);
    EXPECT_EQ(histogram.quantile(1), 100);
    EXPECT_DOUBLE_EQ(histogram.mean(), 50.5);
    EXPECT_NEAR(histogram.standard_deviation(), 29.011491975882016, 1e-9);
}

TEST(Histogram, GreatValuesAreWithinATenthOfAPercent) {
    for (std::int64_t value = 1; value < (std::int64_t{1} << 61U); value = value * 3 + 1) {
        Histogram histogram;
        histogram.add(0);
        histogram.add(value);
        histogram.add(std::numeric_limits<std::int64_t>::max());
        const auto middle = static_cast<double>(histogram.quantile(0.5));
        ASSERT_NEAR(middle / static_cast<double>(value), 1, 0.001) << value;
    }
}

TEST(Histogram, NegativeValuesKeepMinimumAndMean) {
    Histogram histogram;
    histogram.add(-5);
    histogram.add(5);
    EXPECT_EQ(histogram.min(), -5);
    EXPECT_EQ(histogram.mean(), 0);
    EXPECT_EQ(histogram.quantile(0.5), 0);
}

} // namespace
} // namespace reprise
