#include "core/base/clock.hh"
#include "core/tree/fanout.hh"

#include <gtest/gtest.h>

namespace reprise::tree {
namespace {

TEST(ClockOffset, TakesTheProbeWithTheLeastRoundTrip) {
    ClockOffset clock;
    clock.add(1000, 1'000'000 + 1500, 2000);        // symmetric: offset 1,000,000
    clock.add(5000, 1'000'000 + 5900, 6000 + 3000); // slow way back: says 998,900
    EXPECT_EQ(clock.best().offset, 1'000'000);
    EXPECT_EQ(clock.best().round_trip, 1000);
    EXPECT_EQ(clock.count(), 2U);
}

TEST(ClockOffset, KeepsTheBestSampleOfEachSecond) {
    ClockOffset clock;
    clock.add(0, 100, 200);
    clock.add(300, 350, 400);
    clock.add(kSecond, kSecond + 7, kSecond + 10);
    ASSERT_EQ(clock.series().size(), 2U);
    EXPECT_EQ(clock.series()[0].round_trip, 100);
    EXPECT_EQ(clock.series()[1].offset, 2);
}

TEST(ClockOffset, EndsWithTheBestOfTheLastSeconds) {
    ClockOffset clock;
    EXPECT_EQ(clock.latest().offset, 0);
    for (Nanoseconds second = 0; second <= 60; ++second) { // 10 us a second: 0.6 ms in all
        const Nanoseconds sent = second * kSecond;
        const Nanoseconds trip = second == 0 || second == 52 ? 20'000 : 200'000;
        clock.add(sent, sent + trip / 2 + second * 10'000, sent + trip);
    }
    EXPECT_EQ(clock.best().offset, 0);
    EXPECT_EQ(clock.latest().offset, 520'000);
    EXPECT_EQ(clock.latest().round_trip, 20'000);
}

TEST(ClockOffset, WhatWasAnnouncedByStaysWhileTheClocksDrift) {
    ClockOffset clock;
    clock.add(0, 100'000, 200'000);
    clock.settle();
    clock.add(60 * kSecond, 60 * kSecond + 1'000'000 + 5'000, 60 * kSecond + 10'000);
    EXPECT_EQ(clock.best().offset, 0);
    EXPECT_EQ(clock.latest().offset, 1'000'000);
}

TEST(ClockOffset, OfAShortRunTheSecondHalfIsItsEnd) {
    ClockOffset clock;
    clock.add(0, 10, 20);
    clock.add(3 * kSecond, 3 * kSecond + 150, 3 * kSecond + 100);
    EXPECT_EQ(clock.latest().offset, 100);
}

} // namespace
} // namespace reprise::tree
