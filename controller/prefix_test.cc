#include "controller/prefix.hh"
#include "core/base/address.hh"

#include <gtest/gtest.h>

namespace reprise::controller {
namespace {

IpAddress address(const char* text) { return IpAddress::parse(text).value_or(IpAddress{}); }

bool holds(const char* prefix, const char* one) {
    return Prefix::parse(prefix).value_or(Prefix{}).holds(address(one));
}

TEST(Prefix, HoldsWhatSharesItsBits) {
    EXPECT_TRUE(holds("198.18.0.0/15", "198.19.255.53"));
    EXPECT_FALSE(holds("198.18.0.0/15", "198.20.0.0"));
    EXPECT_TRUE(holds("192.0.2.1", "192.0.2.1"));
    EXPECT_FALSE(holds("192.0.2.1", "192.0.2.2"));
    EXPECT_TRUE(holds("0.0.0.0/0", "203.0.113.9"));
    EXPECT_FALSE(holds("0.0.0.0/0", "2001:db8::1"));
    EXPECT_TRUE(holds("fd00:198::/32", "fd00:198:19::1"));
    EXPECT_FALSE(holds("fd00:198::/32", "fd00:199::1"));
    EXPECT_TRUE(holds("2001:db8::/33", "2001:db8:7fff::1"));
    EXPECT_FALSE(holds("2001:db8::/33", "2001:db8:8000::1"));
}

TEST(Prefix, WhatIsNoPrefixIsRefused) {
    for (const char* bad : {"", "/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "10.0.0.0/-1",
                            "2001:db8::/129", "ten/8", "10.0.0/8"}) {
        EXPECT_FALSE(Prefix::parse(bad)) << bad;
    }
}

TEST(Prefix, SourcesThatCanNeverBeAnswered) {
    for (const char* bad :
         {"0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
          "255.255.255.255", "::", "::1", "ff02::1", "fe80::1", "::ffff:192.0.2.1"}) {
        EXPECT_TRUE(any_holds(unusable_sources(), address(bad))) << bad;
    }
    for (const char* good : {"1.1.1.1", "10.0.0.1", "192.0.2.1", "223.255.255.255", "2001:db8::1",
                             "fd00::1", "169.254.1.1"}) {
        EXPECT_FALSE(any_holds(unusable_sources(), address(good))) << good;
    }
}

} // namespace
} // namespace reprise::controller
