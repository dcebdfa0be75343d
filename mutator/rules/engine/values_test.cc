#include "core/base/address.hh"
#include "core/dns/message.hh"
#include "mutator/rules/engine/values.hh"
#include "mutator/rules/rules_test_support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

// NOLINTBEGIN(bugprone-unchecked-optional-access)
namespace reprise::mutator {
namespace {

using testing::HasSubstr;

IpAddress ip(const char* text) { return *IpAddress::parse(text); }

WireBytes wire(const std::string& text) { return *parse_name(text); }

TEST(Prefixes, HoldTheirAddresses) {
    EXPECT_TRUE(Prefix::parse("192.0.2.0/24")->holds(ip("192.0.2.255")));
    EXPECT_FALSE(Prefix::parse("192.0.2.0/24")->holds(ip("192.0.3.0")));
    EXPECT_TRUE(Prefix::parse("0.0.0.0/0")->holds(ip("255.0.0.1")));
    EXPECT_FALSE(Prefix::parse("0.0.0.0/0")->holds(ip("::1")));
    EXPECT_TRUE(Prefix::parse("2001:db8::/33")->holds(ip("2001:db8:7fff::1")));
    EXPECT_FALSE(Prefix::parse("2001:db8::/33")->holds(ip("2001:db8:8000::1")));
    EXPECT_TRUE(Prefix::parse("192.0.2.1")->holds(ip("192.0.2.1")));
    EXPECT_FALSE(Prefix::parse("192.0.2.1")->holds(ip("192.0.2.2")));
    EXPECT_EQ(Prefix::parse("198.18.0.0/15")->free_bits(), 17U);
}

TEST(Prefixes, ThatDoNotParse) {
    for (const char* text : {"", "/", "/24", "192.0.2.0/", "192.0.2.0/33", "192.0.2.0/-1",
                             "192.0.2.1/24", "192.0.2/24", "::/129", "::1/127", "x"}) {
        EXPECT_FALSE(Prefix::parse(text)) << text;
    }
}

TEST(Names, ParseAsTheyAreWritten) {
    EXPECT_EQ(wire("."), WireBytes{0});
    EXPECT_EQ(wire("a.b"), (WireBytes{1, 'a', 1, 'b', 0}));
    EXPECT_EQ(wire("a.b."), wire("a.b"));
    EXPECT_EQ(wire("a\\.b"), (WireBytes{3, 'a', '.', 'b', 0}));
    EXPECT_EQ(wire("\\000\\255"), (WireBytes{2, 0, 255, 0}));
    EXPECT_EQ(name_text(wire("A\\;b.\\032.example.")), "A\\;b.\\032.example.");
    EXPECT_TRUE(parse_name(std::string(63, 'a')));
}

TEST(Names, ThatDoNotParse) {
    const std::string label = std::string(63, 'a') + ".";
    std::string long_name;
    for (int i = 0; i < 4; ++i) {
        long_name += label;
    }
    for (const std::string& text : {std::string(), std::string(".."), std::string("a..b"),
                                    std::string(".a"), std::string("a\\"), std::string("\\25"),
                                    std::string("\\256"), std::string(64, 'a'), long_name}) {
        EXPECT_FALSE(parse_name(text)) << text;
    }
}

TEST(Names, EndAtLabels) {
    EXPECT_TRUE(ends_in(wire("www.Example.COM"), wire("example.com")));
    EXPECT_TRUE(ends_in(wire("example.com"), wire("example.com")));
    EXPECT_TRUE(ends_in(wire("example.com"), wire(".")));
    EXPECT_FALSE(ends_in(wire("anexample.com"), wire("example.com")));
    EXPECT_FALSE(ends_in(wire("com"), wire("example.com")));
    EXPECT_FALSE(ends_in(WireBytes{200, 'a', 0}, wire("c")));
    EXPECT_FALSE(ends_in(WireBytes{}, wire("c")));
}

TEST(Values, WrongOnesNameTheNearest) {
    EXPECT_EQ(complaint("keep", "where.type=AAAB"),
              "--keep, key where.type: \"AAAB\" is not a query type; did you mean AAAA?");
    EXPECT_EQ(complaint("keep", "where.opcode=NOTIFI"),
              "--keep, key where.opcode: \"NOTIFI\" is not an opcode; did you mean NOTIFY?");
    EXPECT_THAT(complaint("keep", "where.flags=rdd"), HasSubstr("did you mean rd?"));
    EXPECT_THAT(complaint("keep", "where.transport=tlss"), HasSubstr("did you mean tls?"));
    EXPECT_THAT(complaint("keep", "where.source=10.0.0.1/8"), HasSubstr("is not a prefix"));
    EXPECT_THAT(complaint("keep", "where.name=a..b"), HasSubstr("is not a domain name"));
    EXPECT_THAT(complaint("keep", "where.from=noon"), HasSubstr("is not a time"));
    EXPECT_THAT(complaint("keep", "where.edns=maybe"), HasSubstr("neither on nor off"));
    EXPECT_EQ(complaint("keep", "where.type=TYPE65280,a"), "");
}

TEST(Values, MixesNeedWeights) {
    EXPECT_EQ(complaint("transport", "udp:90,tcp:10"), "");
    EXPECT_EQ(complaint("transport", "udp,tcp"), "");
    EXPECT_THAT(complaint("transport", "udp:90,tcp"), HasSubstr("\"tcp\" has no weight"));
    EXPECT_THAT(complaint("transport", "udp:-5"), HasSubstr("has no weight"));
    EXPECT_THAT(complaint("transport", "udp:nan"), HasSubstr("has no weight"));
    EXPECT_THAT(complaint("transport", "udp:0,tcp:0"), HasSubstr("all weights are 0"));
}

} // namespace
} // namespace reprise::mutator

// NOLINTEND(bugprone-unchecked-optional-access)
