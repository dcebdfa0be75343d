#include "core/base/address.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <unordered_set>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise {
namespace {

TEST(IpAddress, TextSurvivesTheRoundTrip) {
    for (const std::string text :
         {"192.0.2.1", "0.0.0.0", "255.255.255.255", "2001:db8::1", "::", "fe80::a:0:0:1"}) {
        const auto address = IpAddress::parse(text);
        ASSERT_TRUE(address) << text;
        EXPECT_EQ(address->text(), text);
    }
}

TEST(IpAddress, RefusesWhatIsNoAddress) {
    for (const std::string text :
         {"", "192.0.2", "192.0.2.256", "1.2.3.4.5", "01.2.3.4", "1.2.3.4 ", "1..3.4", "1.2.3.",
          "-1.2.3.4", "2001:db8:::1", "::g", "1:2", ":", "host", "::1%lo",
          "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000"}) {
        EXPECT_FALSE(IpAddress::parse(text)) << text;
    }
    EXPECT_FALSE(IpAddress::parse(std::string("192.0.2.1\0", 10)));
    EXPECT_FALSE(IpAddress::parse(std::string("::1\0x", 5)));
}

TEST(IpAddress, KnowsItsFamilyAndSize) {
    EXPECT_EQ(IpAddress::parse("192.0.2.1")->size(), 4U);
    EXPECT_EQ(IpAddress::parse("2001:db8::1")->size(), 16U);
    EXPECT_EQ(IpAddress{}.size(), 0U);
    EXPECT_EQ(IpAddress{}.text(), "none");
}

TEST(IpAddress, V4AndV6WithTheSameBytesDiffer) {
    const auto v4 = *IpAddress::parse("32.1.13.184");
    const auto v6 = *IpAddress::parse("2001:db8::");
    EXPECT_EQ(v4.bytes, v6.bytes);
    EXPECT_NE(v4, v6);
}

TEST(Endpoint, TextSurvivesTheRoundTrip) {
    for (const std::string text : {"192.0.2.1:53", "[2001:db8::1]:853", "0.0.0.0:0"}) {
        const auto endpoint = Endpoint::parse(text);
        ASSERT_TRUE(endpoint) << text;
        EXPECT_EQ(endpoint->text(), text);
    }
}

TEST(Endpoint, RefusesWhatIsNone) {
    for (const std::string text : {"192.0.2.1", "192.0.2.1:", "192.0.2.1:65536", "192.0.2.1:5x",
                                   "2001:db8::1:53", "[2001:db8::1]", ":53", "[]:53"}) {
        EXPECT_FALSE(Endpoint::parse(text)) << text;
    }
}

TEST(Endpoint, SockaddrRoundTrip) {
    for (const std::string text : {"192.0.2.1:53", "[2001:db8::1]:853"}) {
        sockaddr_storage storage{};
        const auto endpoint = *Endpoint::parse(text);
        const socklen_t size = endpoint.to_sockaddr(storage);
        EXPECT_EQ(size, endpoint.address.is_v4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        EXPECT_EQ(Endpoint::from_sockaddr(storage), endpoint);
    }
}

TEST(Endpoint, WorksAsAHashKey) {
    std::unordered_set<Endpoint> set{*Endpoint::parse("192.0.2.1:53")};
    EXPECT_TRUE(set.contains(*Endpoint::parse("192.0.2.1:53")));
    EXPECT_FALSE(set.contains(*Endpoint::parse("192.0.2.1:54")));
}

IpAddress address(const char* text) { return IpAddress::parse(text).value_or(IpAddress{}); }

Prefix prefix(const char* text) { return Prefix::parse(text).value_or(Prefix{}); }

bool holds(const char* network, const char* one) { return prefix(network).holds(address(one)); }

std::string host(const char* network, std::uint64_t number) {
    const auto found = prefix(network).host(number);
    return found ? found->text() : "";
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
    EXPECT_TRUE(holds("2001:db8::1", "2001:db8::1"));
    EXPECT_TRUE(holds("198.18.1.2/15", "198.19.255.53"));
}

TEST(Prefix, WhatIsNoPrefixIsRefused) {
    for (const char* bad : {"", "/", "/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "10.0.0.0/-1",
                            "10.0.0.0/+8", "10.0.0.0/8 ", "10.0.0.0/8/8", "10.0.0.0/99999999999",
                            "2001:db8::/129", "ten/8", "10.0.0/8"}) {
        EXPECT_FALSE(Prefix::parse(bad)) << bad;
    }
    EXPECT_EQ(prefix("198.18.128.0/17").text(), "198.18.128.0/17");
    EXPECT_EQ(prefix("192.0.2.1").text(), "192.0.2.1/32");
    EXPECT_EQ(prefix("2001:db8::1").free_bits(), 0U);
}

TEST(Prefix, OfANetworkHasNoBitsBehindIt) {
    for (const char* bad : {"192.0.2.1/24", "10.0.0.1/8", "fd00::1/64", "128.0.0.0/0", "x"}) {
        EXPECT_FALSE(Prefix::parse_network(bad)) << bad;
    }
    for (const char* good : {"192.0.2.0/24", "0.0.0.0/0", "fc00::/7", "192.0.2.1", "::/0"}) {
        EXPECT_TRUE(Prefix::parse_network(good)) << good;
    }
    EXPECT_EQ(masked(address("255.255.255.255"), 13).text(), "255.248.0.0");
    EXPECT_EQ(masked(address("ffff::ffff"), 128), address("ffff::ffff"));
}

TEST(Prefix, NumbersItsAddresses) {
    EXPECT_EQ(host("198.18.128.0/17", 300), "198.18.129.44");
    EXPECT_EQ(host("198.18.128.77/30", 3), "198.18.128.79");
    EXPECT_EQ(host("198.18.128.0/30", 4), "");
    EXPECT_EQ(host("192.0.2.1", 0), "192.0.2.1");
    EXPECT_EQ(host("192.0.2.1", 1), "");
    EXPECT_EQ(host("0.0.0.0/0", 0xffffffff), "255.255.255.255");
    EXPECT_EQ(host("fd00::/48", 65'536), "fd00::1:0");
    EXPECT_EQ(host("fd00::/64", std::numeric_limits<std::uint64_t>::max()),
              "fd00::ffff:ffff:ffff:ffff");
    EXPECT_EQ(host("fd00::/8", std::numeric_limits<std::uint64_t>::max()),
              "fd00::ffff:ffff:ffff:ffff");
}

} // namespace
} // namespace reprise

// NOLINTEND(bugprone-unchecked-optional-access)
