#include "core/base/random.hh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace reprise {
namespace {

TEST(Random, EngineIsTheDefinedOne) {
    Random random(5489);
    std::uint64_t last = 0;
    for (int i = 0; i < 10'000; ++i) {
        last = random.bits();
    }
    EXPECT_EQ(last, 9981545732273789042ULL); // [rand.predef] in the C++ standard
}

TEST(Random, LogarithmAgreesWithTheLibrary) {
    for (double x = 0x1p-60; x < 1e18; x *= 1.37) {
        ASSERT_NEAR(portable_log(x), std::log(x), 1e-13) << x;
    }
    EXPECT_EQ(portable_log(1.0), 0.0);
}

TEST(Random, ExponentialFunctionAgreesWithTheLibrary) {
    for (double x = -600; x < 600; x += 0.731) {
        ASSERT_NEAR(portable_exp(x) / std::exp(x), 1, 1e-12) << x;
    }
    EXPECT_EQ(portable_exp(0), 1.0);
    EXPECT_NEAR(portable_power(2, 0.5), std::sqrt(2.0), 1e-15);
}

TEST(Random, BelowStaysBelowAndIsEven) {
    Random random(1);
    std::vector<int> seen(7);
    for (int i = 0; i < 70'000; ++i) {
        ++seen.at(random.below(7));
    }
    for (const int count : seen) {
        EXPECT_NEAR(count, 10'000, 500);
    }
    EXPECT_EQ(random.below(1), 0U);
}

TEST(Random, ExponentialHasItsMean) {
    Random random(2);
    double sum = 0;
    for (int i = 0; i < 200'000; ++i) {
        const double value = random.exponential(10);
        ASSERT_GE(value, 0);
        sum += value;
    }
    EXPECT_NEAR(sum / 200'000, 10, 0.15); // 6 standard errors
}

TEST(WeightedChoice, FollowsTheWeights) {
    const WeightedChoice choice({1, 0, 3, 6});
    Random random(3);
    std::vector<int> seen(4);
    for (int i = 0; i < 100'000; ++i) {
        ++seen.at(choice.draw(random));
    }
    EXPECT_EQ(seen[1], 0);
    EXPECT_NEAR(seen[0], 10'000, 600);
    EXPECT_NEAR(seen[2], 30'000, 900);
    EXPECT_NEAR(seen[3], 60'000, 1000);
}

TEST(WeightedChoice, ZipfWeights) {
    const auto weights = zipf_weights(4, 1);
    EXPECT_NEAR(weights[1], 0.5, 1e-12);
    EXPECT_NEAR(weights[3], 0.25, 1e-12);
    EXPECT_EQ(zipf_weights(3, 0), (std::vector<double>{1, 1, 1}));
}

} // namespace
} // namespace reprise
