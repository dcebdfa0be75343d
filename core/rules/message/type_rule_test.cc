#include "core/dns/message.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/testing/messages.hh"
#include "core/rules/testing/rules.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace reprise::rules {
namespace {

using ::testing::HasSubstr;
using testing::MessageMaker;
using testing::Octets;

std::vector<std::uint16_t> types(const std::string& value, size_t count,
                                 std::uint32_t sources = 16) {
    const auto rule = make_rule("type", value);
    std::vector<std::uint16_t> out;
    for (const Octets& message :
         testing::run(*rule, std::vector<Octets>(count, testing::plain()), 1000, sources)) {
        out.push_back(parse_question(message).value_or(DnsQuestion{}).type);
    }
    return out;
}

TEST(TypeRule, OneType) {
    EXPECT_EQ(types("AAAA", 1), std::vector<std::uint16_t>{28});
    EXPECT_EQ(types("to=TYPE65280", 1), std::vector<std::uint16_t>{65280});
}

TEST(TypeRule, MixesAreExactAtEveryPoint) {
    std::map<std::uint16_t, double> count;
    double all = 0;
    for (const std::uint16_t type : types("A:50,AAAA:30,MX:19.9,TXT:0.1", 20'000)) {
        ++count[type];
        ++all;
        ASSERT_NEAR(count[1], all * 0.5, 20);
        ASSERT_NEAR(count[28], all * 0.3, 20);
        ASSERT_NEAR(count[15], all * 0.199, 20);
        ASSERT_NEAR(count[16], all * 0.001, 20);
    }
    EXPECT_NEAR(count[16], 20, 2);
}

TEST(TypeRule, MixesDoNotKeepStepWithTheTrace) {
    const auto picked = types("A,AAAA", 10'000);
    double even = 0; // queries at even places that got an A
    for (size_t i = 0; i < picked.size(); i += 2) {
        even += picked[i] == 1 ? 1 : 0;
    }
    EXPECT_NEAR(even, 2500, 250);
}

TEST(TypeRule, BySourceIsSticky) {
    const auto picked = types("A:50,AAAA:50,by=source", 4000, 1000);
    double first = 0;
    for (size_t i = 0; i < picked.size(); ++i) {
        ASSERT_EQ(picked[i], picked[i % 1000]);
        first += picked[i] == 1 ? 1 : 0;
    }
    EXPECT_NEAR(first, 2000, 200);
}

TEST(TypeRule, NeedsAQuestionOnly) {
    Octets cut = testing::plain();
    cut[11] = 1;                                // a record that is not there
    const Octets none = MessageMaker().bytes(); // asks nothing
    const auto rule = make_rule("type", "MX");
    const auto out = testing::run(*rule, {cut, none, Octets(12, 1)});
    EXPECT_EQ(testing::shown(out[0]), "www.example.com. 15");
    EXPECT_EQ(out[1], none);
    EXPECT_EQ(
        rule->counts(),
        (RuleCounts{
            {"seen", 3}, {"matched", 3}, {"changed", 1}, {"malformed", 1}, {"no_question", 1}}));
}

TEST(TypeRule, RefusesWhatIsNoType) {
    EXPECT_THAT(complaint("type", "AAAB"), HasSubstr("AAAA"));
    EXPECT_THAT(complaint("type", "A:50,AAAA:x"), HasSubstr("weight"));
    EXPECT_THAT(complaint("type", "A:0"), HasSubstr("weights"));
    EXPECT_THAT(complaint("type", "share=10"), HasSubstr("no type"));
}

TEST(WeightedPicker, KeepsToItsWeights) {
    const std::vector<Weighted> mix{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 0}, {"e", 94}};
    WeightedPicker picker(mix, 7);
    std::vector<double> picked(mix.size());
    for (int i = 0; i < 100'000; ++i) {
        ++picked[picker.pick()];
    }
    EXPECT_EQ(picked[3], 0);
    for (size_t i = 0; i < mix.size(); ++i) {
        EXPECT_NEAR(picked[i], mix[i].weight * 1000, 17);
    }
    EXPECT_EQ(std::accumulate(picked.begin(), picked.end(), 0.0), 100'000);
}

} // namespace
} // namespace reprise::rules
