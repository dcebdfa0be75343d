#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/testing/support.hh"

#include <gtest/gtest.h>

#include <string>

namespace reprise::zonebuilder {
namespace {

using testing::ip;
using testing::prefix;

TEST(Routable, NumbersOfAddressesInAPrefix) {
    EXPECT_EQ(nth_address(prefix("198.18.128.0/17"), 300), ip("198.18.129.44"));
    EXPECT_EQ(nth_address(prefix("198.18.128.0/30"), 2), ip("198.18.128.2"));
    EXPECT_FALSE(nth_address(prefix("198.18.128.0/30"), 3)); // may be a broadcast address
    EXPECT_EQ(nth_address(prefix("fd00::/126"), 3), ip("fd00::3"));
    EXPECT_FALSE(nth_address(prefix("fd00::/126"), 4));
    EXPECT_EQ(nth_address(prefix("fd00::/48"), 65'536), ip("fd00::1:0"));
}

TEST(Routable, KnowsRangesThatNeverLeave) {
    for (const char* address :
         {"0.1.2.3", "127.0.0.53", "169.254.1.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
          "::", "::1", "::ffff:1.2.3.4", "fe80::1", "ff02::1"}) {
        EXPECT_TRUE(why_unroutable(ip(address), {})) << address;
    }
    for (const char* address : {"10.0.0.1", "192.168.1.1", "1.1.1.1", "2001:db8::1", "fd00::1"}) {
        EXPECT_FALSE(why_unroutable(ip(address), {})) << address;
    }
    EXPECT_EQ(why_unroutable(ip("10.9.8.7"), {{prefix("10.0.0.0/8"), "mine"}}), "mine");
}

} // namespace
} // namespace reprise::zonebuilder
