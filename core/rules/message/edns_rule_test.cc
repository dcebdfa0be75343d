#include "core/dns/message.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/testing/messages.hh"
#include "core/rules/testing/rules.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules {
namespace {

using testing::changed;
using ::testing::HasSubstr;
using testing::MessageMaker;
using testing::Octets;
using testing::shown;

Octets with_options(std::string_view options) {
    return MessageMaker().question("www.example.com.").opt(4096, true, options).bytes();
}

std::string edns(const std::string& value, const Octets& message) {
    return shown(changed("edns", value, message));
}

const Octets kPlain = testing::plain();
constexpr std::string_view kNsid("\0\3\0\0", 4);
constexpr std::string_view kCookie("\0\x0a\0\x08"
                                   "12345678",
                                   12);
constexpr std::string_view kUnknown("\xfd\xe9\0\1x", 5);

TEST(EdnsRule, OnAddsWhereThereIsNone) {
    EXPECT_EQ(edns("on", kPlain), "www.example.com. 1 edns=1232 v0");
    EXPECT_EQ(edns("set=on", with_options("")), "www.example.com. 1 edns=4096 do v0");
    EXPECT_EQ(changed("edns", "on", kPlain).size(), kPlain.size() + kOptSize);
}

TEST(EdnsRule, OffRemoves) {
    EXPECT_EQ(changed("edns", "off", with_options(kUnknown)), kPlain);
    EXPECT_EQ(changed("edns", "off", kPlain), kPlain);
}

TEST(EdnsRule, FieldsAreSetOneByOne) {
    const Octets message = with_options(kUnknown);
    EXPECT_EQ(edns("size=512", message), "www.example.com. 1 edns=512 do v0 fde9000178");
    EXPECT_EQ(edns("do=off", message), "www.example.com. 1 edns=4096 v0 fde9000178");
    EXPECT_EQ(edns("version=1", message), "www.example.com. 1 edns=4096 do v1 fde9000178");
    EXPECT_EQ(edns("size=1,do=on,version=255", kPlain), "www.example.com. 1 edns=1 do v255");
}

TEST(EdnsRule, WhatIsSetAddsWhatIsOffDoesNot) {
    EXPECT_EQ(edns("do=on", kPlain), "www.example.com. 1 edns=1232 do v0");
    EXPECT_EQ(edns("nsid=on", kPlain), "www.example.com. 1 edns=1232 v0 00030000");
    for (const char* off : {"do=off", "nsid=off", "cookie=off", "ecs=off", "padding=off"}) {
        EXPECT_EQ(changed("edns", off, kPlain), kPlain) << off;
    }
    EXPECT_EQ(edns("set=on,do=off", kPlain), "www.example.com. 1 edns=1232 v0");
}

TEST(EdnsRule, OptionsKeepTheirPlace) {
    const Octets message = with_options(std::string(kUnknown) + std::string(kCookie) +
                                        std::string(kNsid) + std::string(kUnknown));
    EXPECT_EQ(edns("cookie=0001020304050607", message),
              "www.example.com. 1 edns=4096 do v0 fde9000178"
              "000a00080001020304050607"
              "00030000"
              "fde9000178");
    EXPECT_EQ(edns("cookie=off,nsid=on,ecs=192.0.2.0/24", message),
              "www.example.com. 1 edns=4096 do v0 fde9000178"
              "00030000"
              "fde9000178"
              "0008000700011800c00002");
}

TEST(EdnsRule, AnOptionIsThereOnce) {
    const Octets message =
        with_options(std::string(kNsid) + std::string(kUnknown) + std::string(kNsid));
    EXPECT_EQ(edns("nsid=on", message), "www.example.com. 1 edns=4096 do v0 00030000fde9000178");
    EXPECT_EQ(edns("nsid=off", message), "www.example.com. 1 edns=4096 do v0 fde9000178");
}

TEST(EdnsRule, SubnetsOfBothFamilies) {
    EXPECT_EQ(edns("ecs=198.51.100.128/25", kPlain),
              "www.example.com. 1 edns=1232 v0 0008000800011900c6336480");
    EXPECT_EQ(edns("ecs=2001:db8::/33", kPlain),
              "www.example.com. 1 edns=1232 v0 000800090002210020010db800");
    EXPECT_EQ(edns("ecs=0.0.0.0/0", kPlain), "www.example.com. 1 edns=1232 v0 0008000400010000");
}

TEST(EdnsRule, SubnetsAreDrawnBySource) {
    const auto rule = make_rule("edns", "ecs=192.0.2.0/24,198.51.100.0/24,203.0.113.0/24");
    const auto out = testing::run(*rule, std::vector<Octets>(3000, kPlain), 100, 300);
    std::map<Octets, int> times;
    for (size_t i = 0; i < out.size(); ++i) {
        ++times[out[i]];
        EXPECT_EQ(out[i], out[i % 300]);
    }
    ASSERT_EQ(times.size(), 3U);
    EXPECT_GT(times.begin()->second, 600);
}

TEST(EdnsRule, CookiesAreOneASource) {
    const auto rule = make_rule("edns", "cookie=random");
    const auto out = testing::run(*rule, std::vector<Octets>(600, kPlain), 7, 200);
    std::set<Octets> cookies(out.begin(), out.end());
    EXPECT_EQ(cookies.size(), 200U);
    EXPECT_EQ(out[5], out[205]);
    const auto other = make_rule("edns", "cookie=random", 2);
    EXPECT_NE(testing::run(*other, {kPlain})[0], out[0]);
}

TEST(EdnsRule, PaddingFillsTheBlockAndIsLast) {
    for (const char* name : {".", "a.", "www.example.com.", "a-rather-long-label.example.org."}) {
        const Octets made = changed("edns", "padding=128", testing::plain(name));
        EXPECT_EQ(made.size(), 128U) << name;
        EXPECT_EQ(changed("edns", "padding=128", made), made);
    }
    const std::string padded("\0\x0c\0\3\0\0\0", 7);
    const Octets message = with_options(padded + std::string(kUnknown));
    const Octets made = changed("edns", "padding=64,nsid=on", message);
    EXPECT_EQ(made.size(), 64U);
    EXPECT_THAT(shown(made), HasSubstr("do v0 fde900017800030000000c0007"
                                       "00000000000000"));
    EXPECT_EQ(edns("padding=off", message), "www.example.com. 1 edns=4096 do v0 fde9000178");
}

TEST(EdnsRule, PaddingOfEverySize) {
    std::set<size_t> sizes;
    for (int block = 1; block <= 70; ++block) {
        const Octets made = changed("edns", "padding=" + std::to_string(block), kPlain);
        EXPECT_EQ(made.size() % static_cast<size_t>(block), 0U) << block;
        EXPECT_GE(made.size(), kPlain.size() + kOptSize + 4);
        EXPECT_LT(made.size(), kPlain.size() + kOptSize + 4 + static_cast<size_t>(block));
        EXPECT_TRUE(parse_layout(made).whole);
    }
}

TEST(EdnsRule, SignaturesStayLastAndAreCounted) {
    const Octets message = MessageMaker().question("www.example.com.").tsig().bytes();
    const auto rule = make_rule("edns", "on");
    const Octets made = testing::run(*rule, {message}).at(0);
    EXPECT_EQ(made, MessageMaker().question("www.example.com.").opt(1232).tsig().bytes());
    EXPECT_EQ(rule->counts().at("signed"), 1U);
    EXPECT_EQ(changed("edns", "off", made), message);
}

TEST(EdnsRule, BytesBehindTheMessageStay) {
    const Octets message = MessageMaker().question("www.example.com.").raw("tail").bytes();
    EXPECT_EQ(changed("edns", "on", message),
              MessageMaker().question("www.example.com.").opt(1232).raw("tail").bytes());
}

TEST(EdnsRule, QueriesWithoutAQuestionHaveEdnsToo) {
    EXPECT_EQ(changed("edns", "on", MessageMaker().bytes()), MessageMaker().opt(1232).bytes());
}

TEST(EdnsRule, PinnedMessagesAreKept) {
    MessageMaker maker;
    maker.question("a.").opt().record(3, std::string_view("\1b\0", 3), 1, "addr");
    const Octets message = maker.record(3, "\xc0\x1e", 1, "addr").bytes();
    for (const char* value : {"off", "nsid=on"}) {
        const auto rule = make_rule("edns", value);
        EXPECT_EQ(testing::run(*rule, {message}).at(0), message);
        EXPECT_EQ(rule->counts().at("compressed"), 1U);
    }
    EXPECT_NE(changed("edns", "size=512", message), message);
}

TEST(EdnsRule, MalformedMessagesAreKeptOrDropped) {
    Octets cut = with_options("");
    cut.pop_back();
    const Octets bad_option = with_options("\xfd\xe9");
    const auto rule = make_rule("edns", "nsid=on");
    EXPECT_EQ(testing::run(*rule, {cut, bad_option, {1, 2, 3}}),
              (std::vector<Octets>{cut, bad_option, {1, 2, 3}}));
    EXPECT_EQ(rule->counts(),
              (RuleCounts{{"seen", 3}, {"matched", 3}, {"changed", 0}, {"malformed", 3}}));
    const auto dropper = make_rule("edns", "nsid=on", 1, true);
    EXPECT_EQ(testing::run(*dropper, {cut, kPlain, bad_option, kPlain}).size(), 2U);
    EXPECT_EQ(dropper->counts().at("dropped"), 2U);
    EXPECT_NE(changed("edns", "size=512", bad_option), bad_option) << "needs no options";
}

TEST(EdnsRule, MessagesNeverGrowTooLong) {
    const Octets message = MessageMaker().question("a.").raw(std::string(65'510, 'x')).bytes();
    const auto rule = make_rule("edns", "on");
    EXPECT_EQ(testing::run(*rule, {message}).at(0), message);
    EXPECT_EQ(rule->counts().at("too_long"), 1U);
}

TEST(EdnsRule, RefusesWhatContradicts) {
    EXPECT_THAT(complaint("edns", "set=off,size=1232"), HasSubstr("contradicts set=off"));
    EXPECT_THAT(complaint("edns", "share=50"), HasSubstr("nothing to set"));
    EXPECT_THAT(complaint("edns", "size=65536"), HasSubstr("0 to 65535"));
    EXPECT_THAT(complaint("edns", "version=256"), HasSubstr("version"));
    EXPECT_THAT(complaint("edns", "cookie=abc"), HasSubstr("cookie"));
    EXPECT_THAT(complaint("edns", "cookie=00010203040506xx"), HasSubstr("cookie"));
    EXPECT_THAT(complaint("edns", "ecs=192.0.2.0/33"), HasSubstr("ecs"));
    EXPECT_THAT(complaint("edns", "ecs=off,192.0.2.0/24"), HasSubstr("off"));
    EXPECT_THAT(complaint("edns", "padding=0"), HasSubstr("padding"));
    EXPECT_THAT(complaint("edns", "maybe"), HasSubstr("on"));
    EXPECT_THAT(complaint("edns", "verzion=1"), HasSubstr("did you mean version"));
    EXPECT_EQ(complaint("edns", "cookie=00010203040506070001020304050607"), "");
}

TEST(EdnsRule, SharesAreExact) {
    const auto rule = make_rule("edns", "do=on,share=30");
    const auto out = testing::run(*rule, std::vector<Octets>(10'000, kPlain));
    size_t with = 0;
    for (const Octets& message : out) {
        with += parse_edns(message) ? 1U : 0U;
    }
    EXPECT_NEAR(static_cast<double>(with), 3000, 1);
    EXPECT_EQ(rule->counts().at("changed"), with);
}

} // namespace
} // namespace reprise::rules
