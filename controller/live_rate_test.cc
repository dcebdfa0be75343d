#include "controller/controller.hh"
#include "core/base/clock.hh"

#include <gtest/gtest.h>

namespace reprise::controller {
namespace {

TEST(LiveRate, IsOfTheTimeBetweenTheCountsAndNotBetweenTheLooks) {
    LiveRate rate;
    rate.count(400, 800 * kMillisecond); // looks come each second, counts each 0.4 s
    EXPECT_DOUBLE_EQ(rate.value(), 500);
    rate.count(1000, 2 * kSecond);
    EXPECT_DOUBLE_EQ(rate.value(), 500);
    rate.count(1400, 2800 * kMillisecond);
    EXPECT_DOUBLE_EQ(rate.value(), 500);
}

TEST(LiveRate, StaysWhereNoNewCountCame) {
    LiveRate rate;
    EXPECT_DOUBLE_EQ(rate.value(), 0);
    rate.count(0, -kSecond); // before the start
    rate.count(0, kSecond / 2);
    EXPECT_DOUBLE_EQ(rate.value(), 0);
    rate.count(100, kSecond);
    rate.count(100, kSecond);
    EXPECT_DOUBLE_EQ(rate.value(), 100);
}

} // namespace
} // namespace reprise::controller
