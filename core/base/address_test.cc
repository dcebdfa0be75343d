#include "core/base/address.hh"

#include <gtest/gtest.h>

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
}

TEST(IpAddress, KnowsItsFamilyAndSize) {
    EXPECT_EQ(IpAddress::parse("192.0.2.1")->size(), 4U);
    EXPECT_EQ(IpAddress::parse("2001:db8::1")->size(), 16U);
    EXPECT_EQ(IpAddress{}.size(), 0U);
    EXPECT_EQ(IpAddress{}.text(), "none");
}

TEST(IpAddress, TellsLoopback) {
    EXPECT_TRUE(IpAddress::parse("127.3.2.1")->is_loopback());
    EXPECT_TRUE(IpAddress::parse("::1")->is_loopback());
    EXPECT_FALSE(IpAddress::parse("128.0.0.1")->is_loopback());
    EXPECT_FALSE(IpAddress::parse("::2")->is_loopback());
    EXPECT_FALSE(IpAddress::parse("1::1")->is_loopback());
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

} // namespace
} // namespace reprise

// NOLINTEND(bugprone-unchecked-optional-access)
