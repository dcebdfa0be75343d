#include "controller/selection.hh"
#include "core/base/clock.hh"
#include "core/wire/settings.hh"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::controller {
namespace {

Timetable paced(double speed, double rate = 0, bool fast = false) {
    Settings settings;
    settings.speed = speed;
    settings.rate = rate;
    settings.fast = fast;
    return Timetable(settings);
}

/// Due times of queries at these trace times.
std::vector<Nanoseconds> dues(Timetable& timetable, const std::vector<Nanoseconds>& times) {
    std::vector<Nanoseconds> out;
    for (const Nanoseconds time : times) {
        const Nanoseconds at = timetable.shifted(time);
        out.push_back(timetable.due(at));
        timetable.take(at);
    }
    return out;
}

using Times = std::vector<Nanoseconds>;

TEST(Timetable, TraceTimeCountsFromTheFirstQuery) {
    Timetable timetable = paced(1);
    EXPECT_EQ(dues(timetable, {1000, 1007, 1005, 2000}), (Times{0, 7, 5, 1000}));
}

TEST(Timetable, SpeedDivides) {
    Timetable fast = paced(2);
    EXPECT_EQ(dues(fast, {1000, 1008, 3000}), (Times{0, 4, 1000}));
    Timetable slow = paced(0.5);
    EXPECT_EQ(dues(slow, {1000, 1008}), (Times{0, 16}));
    Timetable slowest = paced(0.001); // whose due time exceeds 64 bits
    EXPECT_GT(dues(slowest, {1000, 1'500'000'000 * kSecond}).back(), 1'500'000'000 * kSecond);
}

TEST(Timetable, RateForgetsTheTrace) {
    Timetable timetable = paced(1, 4);
    EXPECT_EQ(dues(timetable, {7, 7, 9, 1}), (Times{0, kSecond / 4, kSecond / 2, 3 * kSecond / 4}));
}

TEST(Timetable, RateStaysExactOverManyQueries) {
    Timetable timetable = paced(1, 3);
    for (int i = 0; i < 3'000'000; ++i) {
        timetable.take(0);
    }
    EXPECT_EQ(timetable.due(0), 1'000'000 * kSecond);
}

TEST(Timetable, FastHasNoTimes) {
    Timetable timetable = paced(1, 0, true);
    EXPECT_EQ(dues(timetable, {7, 1000}), (Times{0, 0}));
}

TEST(Timetable, ALapBeginsOneMeanGapAfterTheEnd) {
    Timetable timetable = paced(1);
    dues(timetable, {100, 110, 120, 160}); // span 60, mean gap 20
    timetable.next_lap();
    EXPECT_EQ(dues(timetable, {100, 110, 120, 160}), (Times{80, 90, 100, 140}));
    timetable.next_lap();
    EXPECT_EQ(dues(timetable, {100}), (Times{160}));
    EXPECT_EQ(timetable.taken(), 9U);
    EXPECT_EQ(timetable.taken_in_lap(), 1U);
}

TEST(Timetable, LapsOfOneMomentAreASecondApart) {
    Timetable timetable = paced(1);
    dues(timetable, {100, 100});
    timetable.next_lap();
    EXPECT_EQ(dues(timetable, {100, 100}), (Times{kSecond, kSecond}));
}

TEST(Timetable, SpeedScalesLapsToo) {
    Timetable timetable = paced(2);
    dues(timetable, {0, 100});
    timetable.next_lap();
    EXPECT_EQ(dues(timetable, {0, 100}), (Times{100, 150}));
}

} // namespace
} // namespace reprise::controller
