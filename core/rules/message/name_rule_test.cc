#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/testing/messages.hh"
#include "core/rules/testing/rules.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules {
namespace {

using ::testing::HasSubstr;
using testing::MessageMaker;
using testing::Octets;
using testing::plain;
using testing::shown;

std::string name(const std::string& value, const std::string& before) {
    const std::string made = shown(testing::changed("name", value, plain(before)));
    return made.substr(0, made.find(' '));
}

/// 255 bytes: three labels of 63 and one of 61.
std::string longest_name() {
    const std::string label(63, 'x');
    return label + "." + label + "." + label + "." + label.substr(2) + ".";
}

TEST(NameRule, Prefix) {
    EXPECT_EQ(name("prefix=test", "www.example.com."), "test.www.example.com.");
    EXPECT_EQ(name("prefix=test", "."), "test.");
    EXPECT_EQ(name("prefix=a.b", "c."), "a.b.c.");
}

TEST(NameRule, Suffix) {
    EXPECT_EQ(name("suffix=test.", "www.example.com."), "www.example.com.test.");
    EXPECT_EQ(name("suffix=lab.test", "."), "lab.test.");
}

TEST(NameRule, Zone) {
    EXPECT_EQ(name("zone=example.com,example.net", "www.example.com."), "www.example.net.");
    EXPECT_EQ(name("zone=Example.COM,example.net", "WWW.eXample.com."), "WWW.example.net.");
    EXPECT_EQ(name("zone=example.com,test", "example.com."), "test.");
    EXPECT_EQ(name("zone=example.com,test", "badexample.com."), "badexample.com.");
    EXPECT_EQ(name("zone=example.com,test", "com."), "com.");
    EXPECT_EQ(name("zone=.,test", "a.b."), "a.b.test.");
    EXPECT_EQ(name("zone=com,.", "a.com."), "a.");
}

TEST(NameRule, Fixed) {
    EXPECT_EQ(name("fixed=Example.com", "www.example.com."), "Example.com.");
    EXPECT_EQ(name("example.com", "."), "example.com.");
    EXPECT_EQ(name("fixed=.", "www.example.com."), ".");
}

TEST(NameRule, Case) {
    EXPECT_EQ(name("case=lower", "WWW.eXaMple-1.COM."), "www.example-1.com.");
    EXPECT_EQ(name("case=upper", "www.eXaMple-1.com."), "WWW.EXAMPLE-1.COM.");
    EXPECT_EQ(name("case=upper", "@[`{.\\001\\128."), "\\@[`{.\\001\\128.") << "no letters";
}

TEST(NameRule, RandomCase) {
    const auto rule = make_rule("name", "case=0x20");
    const std::string longest = longest_name();
    const auto out = testing::run(*rule, std::vector<Octets>(200, plain(longest)));
    const Octets before = plain(longest);
    const auto asked = parse_question(before).value_or(DnsQuestion{});
    EXPECT_EQ(asked.name.size(), 255U);
    size_t upper = 0;
    std::set<Octets> different(out.begin(), out.end());
    for (const Octets& message : out) {
        const auto question = parse_question(message).value_or(DnsQuestion{});
        EXPECT_TRUE(same_question(question, asked));
        for (const char c : name_text(question.name)) {
            upper += c == 'X' ? 1U : 0U;
        }
    }
    EXPECT_EQ(different.size(), 200U);
    EXPECT_NEAR(static_cast<double>(upper), 200 * 250 / 2.0, 500);
}

TEST(NameRule, UniqueCountsWhatItChanged) {
    const auto rule = make_rule("name", "unique=q");
    const auto out = testing::run(*rule, {plain("a."), plain(longest_name()), plain("."), plain()});
    EXPECT_EQ(shown(out[0]), "q00000000.a. 1");
    EXPECT_EQ(out[1], plain(longest_name()));
    EXPECT_EQ(shown(out[2]), "q00000001. 1");
    EXPECT_EQ(shown(out[3]), "q00000002.www.example.com. 1");
    EXPECT_EQ(rule->counts().at("too_long"), 1U);
}

TEST(NameRule, UniqueNamesAreUnique) {
    const auto rule = make_rule("name", "unique=longer");
    const auto out = testing::run(*rule, std::vector<Octets>(5000, plain(".")), 999);
    EXPECT_EQ(std::set<Octets>(out.begin(), out.end()).size(), out.size());
}

TEST(NameRule, NamesOf255BytesAtMost) {
    const std::string fits = longest_name().substr(5); // 250 bytes
    EXPECT_EQ(name("prefix=abcd", fits), "abcd." + fits);
    EXPECT_EQ(name("prefix=abcde", fits), fits);
    EXPECT_EQ(name("zone=.,a.bc", fits), fits + "a.bc.");
    EXPECT_EQ(name("suffix=a.bcd", fits), fits);
}

TEST(NameRule, WhatIsBehindTheNameStays) {
    MessageMaker before;
    before.question("a.", 28).record(3, std::string_view("\1x\0", 3), 16, "\4text").opt().tsig();
    MessageMaker after;
    after.question("b.a.", 28).record(3, std::string_view("\1x\0", 3), 16, "\4text").opt().tsig();
    const auto rule = make_rule("name", "prefix=b");
    EXPECT_EQ(testing::run(*rule, {before.bytes()}).at(0), after.bytes());
    EXPECT_EQ(rule->counts().at("signed"), 1U);
}

TEST(NameRule, CompressedMessagesOnlyChangeCase) {
    const Octets message = MessageMaker().question("a.").record(1, "\xc0\x0c", 1, "addr").bytes();
    for (const char* value : {"prefix=b", "fixed=b", "suffix=c", "zone=a,b", "unique=q"}) {
        const auto rule = make_rule("name", value);
        EXPECT_EQ(testing::run(*rule, {message}).at(0), message) << value;
        EXPECT_EQ(rule->counts().at("compressed"), 1U) << value;
    }
    for (const char* value : {"case=upper", "fixed=A"}) {
        Octets expected = message;
        expected[13] = 'A';
        EXPECT_EQ(testing::changed("name", value, message), expected) << value;
    }
}

TEST(NameRule, MalformedAndUnasked) {
    const Octets none = MessageMaker().opt().bytes();
    Octets cut = plain();
    cut.pop_back();
    for (const char* value : {"prefix=b", "case=upper", "zone=.,test", "unique=q"}) {
        const auto rule = make_rule("name", value, 1, true);
        EXPECT_EQ(testing::run(*rule, {none, cut}), std::vector<Octets>{none}) << value;
        EXPECT_EQ(rule->counts(), (RuleCounts{{"seen", 2},
                                              {"matched", 2},
                                              {"changed", 0},
                                              {"malformed", 1},
                                              {"no_question", 1},
                                              {"dropped", 1}}));
    }
}

TEST(NameRule, CaseNeedsTheQuestionOnly) {
    Octets message = plain();
    message[11] = 1; // announces a record
    EXPECT_EQ(shown(testing::changed("name", "case=upper", message)), "WWW.EXAMPLE.COM. 1");
    EXPECT_EQ(testing::changed("name", "prefix=b", message), message);
}

TEST(NameRule, RefusesWhatContradicts) {
    EXPECT_THAT(complaint("name", "share=10"), HasSubstr("give one of"));
    EXPECT_THAT(complaint("name", "prefix=a,suffix=b"), HasSubstr("contradicts prefix"));
    EXPECT_THAT(complaint("name", "prefix=a..b"), HasSubstr("not a domain name"));
    EXPECT_THAT(complaint("name", "prefix=" + std::string(64, 'x')),
                HasSubstr("not a domain name"));
    EXPECT_EQ(complaint("name", "prefix=" + std::string(63, 'x')), "");
    EXPECT_THAT(complaint("name", "prefix=."), HasSubstr("prefix"));
    EXPECT_THAT(complaint("name", "unique=a.b"), HasSubstr("without a dot"));
    EXPECT_THAT(complaint("name", "unique=" + std::string(48, 'x')), HasSubstr("at most 47"));
    EXPECT_EQ(complaint("name", "unique=" + std::string(47, 'x')), "");
    EXPECT_THAT(complaint("name", "zone=a"), HasSubstr("FROM,TO"));
    EXPECT_THAT(complaint("name", "case=uper"), HasSubstr("upper"));
    EXPECT_THAT(complaint("name", "sufix=a"), HasSubstr("suffix"));
}

} // namespace
} // namespace reprise::rules
