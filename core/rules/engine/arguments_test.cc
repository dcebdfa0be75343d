#include "core/base/clock.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/testing/rules.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::rules {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Arguments arguments_of(std::vector<Argument> list) {
    return {"edns", "rules.toml:3", std::move(list)};
}

template <typename Call> std::string error_of(Call call) {
    try {
        call();
    } catch (const RuleError& error) {
        return error.what();
    }
    return "";
}

std::string pair_error(const RuleSet& set) {
    return error_of([&] { make_rules(set); });
}

std::string options_error(const std::vector<std::pair<std::string, std::string>>& options) {
    return error_of([&] {
        RuleSet set;
        for (const auto& [kind, value] : options) {
            set.rules.push_back(parse_rule_option(kind, value));
        }
        make_rules(set);
    });
}

TEST(Arguments, ReadsEachType) {
    auto arguments = arguments_of({{"size", {"1232"}, "rules.toml:4"},
                                   {"share", {"12.5"}, "rules.toml:5"},
                                   {"do", {"on"}, "rules.toml:6"},
                                   {"type", {"A", "AAAA"}, "rules.toml:7"},
                                   {"by", {"source"}, "rules.toml:8"}});
    EXPECT_EQ(arguments.get_integer("size", 0, 65'535), 1232U);
    EXPECT_EQ(arguments.get_number("share", 0, 100), 12.5);
    EXPECT_EQ(arguments.get_switch("do"), true);
    EXPECT_THAT(arguments.get_list("type"), ElementsAre("A", "AAAA"));
    EXPECT_EQ(arguments.get_word("by", {"query", "source"}), "source");
    EXPECT_EQ(arguments.get_text("none"), std::nullopt);
    EXPECT_TRUE(arguments.get_list("none").empty());
    EXPECT_NO_THROW(arguments.finish());
}

TEST(Arguments, NameThePlaceTheRuleAndTheKey) {
    auto arguments = arguments_of({{"size", {"many"}, "rules.toml:4"}, {"x", {"a", "b"}, "r:5"}});
    EXPECT_EQ(error_of([&] { arguments.get_integer("size", 0, 65'535); }),
              "rules.toml:4: rule edns, key size: \"many\" is not a whole number from 0 to 65535");
    EXPECT_EQ(error_of([&] { arguments.get_text("x"); }),
              "r:5: rule edns, key x: takes one value, not 2");
    EXPECT_EQ(error_of([&] { arguments.fail("", "is bad"); }), "rules.toml:3: rule edns: is bad");
    EXPECT_EQ(complaint("transport", "to=tpc"), "--transport, key to: \"tpc\" is not known; did "
                                                "you mean tcp?");
}

TEST(Arguments, RefuseNumbersOutOfRangeOrNotWhole) {
    for (const char* value : {"-1", "101", "nan", "inf", "1e999", "5%", "", " 5", "0x10"}) {
        auto arguments = arguments_of({{"share", {value}, "r:1"}});
        EXPECT_THAT(error_of([&] { arguments.get_number("share", 0, 100); }),
                    HasSubstr("is not a number from 0 to 100"))
            << value;
    }
    for (const char* value : {"-1", "1.5", "65536", "99999999999999999999", "+5"}) {
        auto arguments = arguments_of({{"size", {value}, "r:1"}});
        EXPECT_THROW(arguments.get_integer("size", 0, 65'535), RuleError) << value;
    }
}

TEST(Arguments, RefuseUnknownKeysAndTwins) {
    EXPECT_EQ(complaint("transport", "to=tcp,shar=5"),
              "--transport, key shar: is not known; did you mean share?");
    EXPECT_THAT(complaint("transport", "to=tcp,where.typee=A"),
                HasSubstr("did you mean where.type"));
    EXPECT_THAT(complaint("transport", "to=tcp,to=udp"), HasSubstr("is there twice"));
}

TEST(Options, SplitAtCommasAndContinueValues) {
    const Arguments arguments =
        parse_rule_option("transport", "udp:90,tcp:10,share=50,where.type=A,AAAA");
    ASSERT_EQ(arguments.list().size(), 3U);
    EXPECT_EQ(arguments.list()[0].key, "to");
    EXPECT_THAT(arguments.list()[0].values, ElementsAre("udp:90", "tcp:10"));
    EXPECT_THAT(arguments.list()[2].values, ElementsAre("A", "AAAA"));
    EXPECT_EQ(arguments.place(), "--transport");
    EXPECT_FALSE(arguments.takes_all());
    EXPECT_TRUE(parse_rule_option("transport", "tcp").takes_all());
    EXPECT_TRUE(parse_rule_option("transport", "tcp,share=100").takes_all());
    EXPECT_TRUE(parse_rule_option("transport", "").list().empty());
}

TEST(Options, RefuseEmptyValuesAndUnknownKinds) {
    EXPECT_THAT(complaint("transport", "to="), HasSubstr("key to: has no value"));
    EXPECT_THAT(complaint("transport", "to=tcp,,share=5"), HasSubstr("key to: has no value"));
    EXPECT_THAT(complaint("transport", "tcp,"), HasSubstr("has no value"));
    EXPECT_EQ(complaint("trannsport", "tcp"),
              "--trannsport: rule \"trannsport\" is not known; did you mean transport?");
}

TEST(Catalog, KindsAreNamedOnceAndCanBeAskedForHelp) {
    std::vector<std::string> names;
    for (const RuleKind& kind : rule_kinds()) {
        EXPECT_EQ(std::ranges::count(names, kind.name), 0) << kind.name;
        EXPECT_FALSE(kind.help.empty()) << kind.name;
        EXPECT_FALSE(kind.first_key.empty()) << kind.name;
        names.push_back(kind.name);
    }
    EXPECT_GE(names.size(), 6U);
}

TEST(Contradictions, NameBothPlaces) {
    EXPECT_EQ(options_error({{"transport", "tcp"}, {"transport", "udp"}}),
              "--transport (rule 2): sets to of every query, so that of --transport (rule 1) has "
              "no effect; remove one, or give it share= or where.");
    RuleSet set;
    parse_rule_file("[[rule]]\nkind = \"class\"\nrtt = 5\n[[rule]]\nkind = \"class\"\nrtt = 6\n",
                    "f.toml", set);
    EXPECT_THAT(pair_error(set), HasSubstr("f.toml:4: rule class: sets rtt of every query, so "
                                           "that of f.toml:1: rule class has no effect"));
}

TEST(Contradictions, AreOnlyThoseWithoutEffect) {
    EXPECT_EQ(options_error({{"transport", "tcp"}, {"transport", "udp,share=50"}}), "");
    EXPECT_EQ(options_error({{"transport", "tcp,where.type=A"}, {"transport", "udp"}}), "");
    EXPECT_EQ(options_error({{"class", "rtt=5"}, {"class", "idle=5"}}), "");
    EXPECT_EQ(options_error({{"keep", "where.type=A"}, {"drop", "where.type=AAAA"}}), "");
    EXPECT_EQ(options_error(
                  {{"keep", "where.type=A"}, {"type", "A:50,AAAA:50"}, {"drop", "where.type=A"}}),
              "");
    EXPECT_EQ(options_error({{"edns", "set=off"}, {"edns", "set=on"}}), "") << "without options";
    EXPECT_EQ(options_error({{"keep", "share=50,where.type=A"}, {"drop", "where.type=A,share=10"}}),
              "");
}

TEST(Contradictions, KeepAndDropOfTheSame) {
    EXPECT_THAT(options_error({{"keep", "where.type=A,AAAA"}, {"drop", "where.type=AAAA,A"}}),
                HasSubstr("--drop (rule 2): with --keep (rule 1), which has the same filter, no "
                          "query is left"));
}

TEST(Contradictions, NewTimesTwice) {
    EXPECT_THAT(options_error({{"speed", "2"}, {"transport", "tcp"}, {"poisson", "100"}}),
                HasSubstr("--poisson (rule 3): gives every query a new time, so --speed (rule 1)"));
    EXPECT_EQ(options_error({{"speed", "2"}, {"keep", "where.from=10"}, {"poisson", "100"}}), "");
    EXPECT_EQ(options_error({{"speed", "2"}, {"collapse", "5"}, {"gap", "1"}}), "");
    EXPECT_EQ(options_error({{"speed", "2"}, {"speed", "3"}}), "") << "six times as fast";
    EXPECT_EQ(options_error({{"poisson", "100"}, {"speed", "2"}}), "");
    EXPECT_THAT(options_error({{"jitter", "2"}, {"gap", "1"}}),
                HasSubstr("has no effect; remove it, or put it behind"));
    EXPECT_THAT(options_error({{"poisson", "2"}, {"profile", "0:1"}}),
                ::testing::EndsWith("has no effect; remove one"));
}

TEST(Contradictions, HeavyIsBeforeWhatMakesOtherSources) {
    const std::string key(64, '1');
    for (const auto& [kind, value] :
         std::vector<std::pair<std::string, std::string>>{{"anonymize", key},
                                                          {"remap", "198.18.0.0/15"},
                                                          {"duplicate", "2,share=50"},
                                                          {"attack", "5,for=1,fixed=a"}}) {
        EXPECT_THAT(options_error({{kind, value}, {"heavy", "5"}}),
                    HasSubstr("makes others of them; put heavy first"));
        EXPECT_EQ(options_error({{"heavy", "5"}, {kind, value}}), "");
    }
}

TEST(Contradictions, CopiesThatConnectionNumbersCannotHold) {
    EXPECT_EQ(options_error({{"duplicate", "181"}, {"duplicate", "181"}}), "");
    EXPECT_THAT(options_error({{"duplicate", "10000"}, {"duplicate", "10000"}}),
                HasSubstr("every query comes 100000000 times; at most 32768"));
}

TEST(Mixes, WeightsHaveASum) {
    EXPECT_THAT(options_error({{"class", "rtt=1:1e308,2:1e308"}}), HasSubstr("sum is too large"));
}

TEST(MakeRules, OneSeedEachAndSameSeedSameRules) {
    const auto trace = steady(2000, kMillisecond);
    EXPECT_EQ(run("keep", "share=30", trace, 100, 7), run("keep", "share=30", trace, 4096, 7));
    EXPECT_NE(run("keep", "share=30", trace, 100, 7), run("keep", "share=30", trace, 100, 8));
}

} // namespace
} // namespace reprise::rules
