#include "core/rules/engine/rule.hh"
#include "core/rules/testing/messages.hh"
#include "core/rules/testing/rules.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::rules {
namespace {

using ::testing::HasSubstr;
using testing::MessageMaker;
using testing::Octets;

std::uint16_t flags(const std::string& value, std::uint16_t before) {
    const Octets made =
        testing::changed("header", value, MessageMaker(before).question("a.").bytes());
    return static_cast<std::uint16_t>(made[2] << 8U | made[3]);
}

TEST(HeaderRule, SetsAndClearsFlags) {
    EXPECT_EQ(flags("rd", 0), 0x0100);
    EXPECT_EQ(flags("-rd", 0x0100), 0);
    EXPECT_EQ(flags("rd,-cd", 0x0010), 0x0100);
    EXPECT_EQ(flags("set=ad,z", 0x0100), 0x0160);
    EXPECT_EQ(flags("rd=off,cd=on,ad=on,z=on", 0x0100), 0x0070);
}

TEST(HeaderRule, SetsTheOpcode) {
    EXPECT_EQ(flags("opcode=NOTIFY", 0x0110), 0x2110);
    EXPECT_EQ(flags("opcode=QUERY", 0x2910), 0x0110);
    EXPECT_EQ(flags("rd,opcode=15", 0), 0x7900);
}

TEST(HeaderRule, NeedsNoMoreThanAHeader) {
    const auto rule = make_rule("header", "rd");
    const Octets bare(12, 0);
    Octets announced = bare;
    announced[5] = 1;
    const auto out = testing::run(*rule, {bare, announced, Octets(11, 0)});
    EXPECT_EQ(out[0][2], 1);
    EXPECT_EQ(out[1][2], 1);
    EXPECT_EQ(out[2], Octets(11, 0));
    EXPECT_EQ(rule->counts(),
              (RuleCounts{{"seen", 3}, {"matched", 3}, {"changed", 2}, {"malformed", 1}}));
}

TEST(HeaderRule, CountsWhatIsChangedAndSigned) {
    const auto rule = make_rule("header", "cd");
    const Octets done = MessageMaker(0x0010).question("a.").bytes();
    const Octets signed_one = MessageMaker(0).question("a.").tsig().bytes();
    testing::run(*rule, {done, signed_one, testing::plain()});
    EXPECT_EQ(rule->counts(),
              (RuleCounts{{"seen", 3}, {"matched", 3}, {"changed", 2}, {"signed", 1}}));
}

TEST(HeaderRule, RefusesWhatContradicts) {
    EXPECT_THAT(complaint("header", "rd,-rd"), HasSubstr("rd is there twice"));
    EXPECT_THAT(complaint("header", "set=cd,cd=off"), HasSubstr("cd is there twice"));
    EXPECT_THAT(complaint("header", "rx"), HasSubstr("rx"));
    EXPECT_THAT(complaint("header", "opcode=NOTIFI"), HasSubstr("NOTIFY"));
    EXPECT_THAT(complaint("header", "opcode=16"), HasSubstr("16"));
    EXPECT_THAT(complaint("header", "opcod=1"), HasSubstr("opcode"));
    EXPECT_THAT(complaint("header", "share=10"), HasSubstr("nothing to set"));
}

} // namespace
} // namespace reprise::rules
