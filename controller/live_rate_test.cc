#include "controller/controller.hh"
#include "core/base/clock.hh"

#include <gtest/gtest.h>

namespace reprise::controller {
namespace {

TEST(LiveRate, IsOfTheTimeBetweenTheCountsAndNotBetweenTheLooks) {
    LiveRate rate; // looks come each second, counts each 0.4 s
    EXPECT_DOUBLE_EQ(rate.of(400, 800 * kMillisecond), 500);
    EXPECT_DOUBLE_EQ(rate.of(1000, 2 * kSecond), 500);
    EXPECT_DOUBLE_EQ(rate.of(1400, 2800 * kMillisecond), 500);
}

TEST(LiveRate, StaysWhereNoNewCountCame) {
    LiveRate rate;
    EXPECT_DOUBLE_EQ(rate.of(0, -kSecond), 0); // before the start
    EXPECT_DOUBLE_EQ(rate.of(0, kSecond / 2), 0);
    EXPECT_DOUBLE_EQ(rate.of(100, kSecond), 100);
    EXPECT_DOUBLE_EQ(rate.of(100, kSecond), 100);
}

} // namespace
} // namespace reprise::controller
