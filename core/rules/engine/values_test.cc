#include "core/rules/testing/rules.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::rules {
namespace {

using testing::HasSubstr;

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
    EXPECT_THAT(complaint("class", "rtt=20:50,80"), HasSubstr("\"80\" has no weight"));
    EXPECT_THAT(complaint("transport", "udp:-5"), HasSubstr("has no weight"));
    EXPECT_THAT(complaint("transport", "udp:nan"), HasSubstr("has no weight"));
    EXPECT_THAT(complaint("transport", "udp:0,tcp:0"), HasSubstr("all weights are 0"));
}

} // namespace
} // namespace reprise::rules
