#include "core/base/clock.hh"
#include "core/trace/extent.hh"

#include <gtest/gtest.h>

#include <cstdint>

namespace reprise::trace {
namespace {

/// Ten queries a second apart, from a file of which each is a hundredth.
Sample ten(double from = 0) {
    Sample sample;
    for (int number = 0; number < 10; ++number) {
        sample.add(1'000 * kSecond + number * kSecond, from + 0.01 * number);
    }
    return sample;
}

TEST(Extent, OfAWholeTraceIsWhatWasSeen) {
    Sample sample = ten();
    sample.end();
    EXPECT_EQ(sample.extent().line(), "extent queries=10 span_s=9.000");
}

TEST(Extent, WhatFollowsIsLikeTheBeginning) {
    EXPECT_NEAR(ten().extent().queries, 10 / 0.09, 0.1);
    EXPECT_NEAR(ten().extent().span_s, 100, 1e-3);
    EXPECT_NEAR(ten(0.5).extent().queries, 10 / 0.09 / 2, 0.1);
}

TEST(Extent, OnlyThePartThatIsWantedCounts) {
    const Extent part = ten().extent(1'018 * kSecond);
    EXPECT_NEAR(part.queries, 20, 0.1);
    EXPECT_NEAR(part.span_s, 18, 1e-3);
    EXPECT_NEAR(ten().extent(5'000 * kSecond).queries, 10 / 0.09, 0.1);
}

TEST(Extent, IsUnknownWhereTheSizeOfTheFileIs) {
    Sample sample;
    sample.add(0, 0);
    sample.add(kSecond, 0);
    EXPECT_EQ(sample.extent().line(), "extent queries=0 span_s=0.000");
    EXPECT_EQ(Sample().extent().queries, 0);
}

TEST(Extent, SomeMessagesFromTheFirstQueryOnAreEnough) {
    Sample sample;
    const auto reads_on = [&sample](std::uint64_t messages) {
        bool more = true;
        for (std::uint64_t i = 0; i < messages; ++i) {
            more = sample.wants_more();
        }
        return more;
    };
    EXPECT_TRUE(reads_on(2 * Sample::kEnough));
    sample.add(0, 0.1);
    EXPECT_TRUE(reads_on(Sample::kEnough - 1));
    EXPECT_FALSE(reads_on(1));
}

} // namespace
} // namespace reprise::trace
