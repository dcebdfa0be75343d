#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string>

namespace reprise::rules {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

RuleSet parsed(const std::string& text) {
    RuleSet set;
    parse_rule_file(text, "r.toml", set);
    return set;
}

std::string file_error(const std::string& text) {
    try {
        parsed(text);
    } catch (const RuleError& error) {
        EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
        return error.what();
    }
    return "";
}

const Argument& argument(const RuleSet& set, const std::string& key, size_t rule = 0) {
    const auto& list = set.rules.at(rule).list();
    const auto found = std::ranges::find(list, key, &Argument::key);
    if (found == list.end()) {
        throw std::runtime_error("no " + key);
    }
    return *found;
}

TEST(RuleFile, HoldsRulesInOrderWithTheirLines) {
    const RuleSet set = parsed(R"(# what if all were TCP
seed = 7
malformed = "drop"

[[rule]]
kind = "transport"
to = "tcp"
share = 12.5
where = { type = ["A", "AAAA"], name = "example.com.", do = true }

[[rule]]
kind = "keep"
where.from = 2016-10-06T11:00:00Z
)");
    EXPECT_EQ(set.settings.seed, 7U);
    EXPECT_TRUE(set.settings.drop_malformed);
    ASSERT_EQ(set.rules.size(), 2U);
    EXPECT_EQ(set.rules[0].kind(), "transport");
    EXPECT_EQ(set.rules[0].place(), "r.toml:5");
    EXPECT_EQ(set.rules[1].place(), "r.toml:11");
    EXPECT_THAT(argument(set, "to").values, ElementsAre("tcp"));
    EXPECT_EQ(argument(set, "to").place, "r.toml:7");
    EXPECT_THAT(argument(set, "share").values, ElementsAre("12.5"));
    EXPECT_THAT(argument(set, "where.type").values, ElementsAre("A", "AAAA"));
    EXPECT_THAT(argument(set, "where.do").values, ElementsAre("on"));
    EXPECT_THAT(argument(set, "where.from", 1).values, ElementsAre("2016-10-06T11:00:00Z"));
    EXPECT_NO_THROW(make_rules(set));
}

TEST(RuleFile, MixesAreTablesOrPairsInTheFilesOrder) {
    const RuleSet set = parsed("[[rule]]\nkind = \"transport\"\nto = { udp = 90, tcp = 10 }\n"
                               "[[rule]]\nkind = \"profile\"\npoints = [[0, 1000], [60.5, 50]]\n");
    EXPECT_THAT(argument(set, "to").values, ElementsAre("udp:90", "tcp:10"));
    EXPECT_THAT(argument(set, "points", 1).values, ElementsAre("0:1000", "60.5:50"));
}

TEST(RuleFile, SmallNumbersAreThoseOfTheCommandLine) {
    const RuleSet set = parsed("[[rule]]\nkind = \"shift\"\nseconds = -0.00001\n"
                               "where.from = 0.000000001\n");
    EXPECT_THAT(argument(set, "seconds").values, ElementsAre("-0.000010000"));
    EXPECT_THAT(argument(set, "where.from").values, ElementsAre("0.000000001"));
    EXPECT_NO_THROW(make_rules(set));
}

TEST(RuleFile, SyntaxErrorsHaveTheirLine) {
    EXPECT_THAT(file_error("seed = 1\nseed = = 2\n"), StartsWith("r.toml:2: "));
    EXPECT_THAT(file_error("[[rule]]\nkind = \"keep\"\nkind = \"drop\"\n"),
                StartsWith("r.toml:3: "));
    EXPECT_THAT(file_error("[[rule]\nkind = \"keep\"\n"), StartsWith("r.toml:1: "));
    EXPECT_THAT(file_error(std::string("seed = 1\n\0", 10)), StartsWith("r.toml:"));
}

TEST(RuleFile, UnknownKeysAndKindsAreRefused) {
    EXPECT_EQ(file_error("sed = 7\n"), "r.toml:1: key sed is not known; did you mean seed?");
    EXPECT_EQ(file_error("[[rule]]\nkind = \"trannsport\"\n"),
              "r.toml:2: rule \"trannsport\" is not known; did you mean transport?");
    EXPECT_EQ(file_error("[[rule]]\nto = \"tcp\"\n"),
              "r.toml:1: the rule has no kind; write kind = \"KIND\"");
    EXPECT_THAT(file_error("[[rule]]\nkind = true\n"), HasSubstr("r.toml:2: kind is not a text"));
}

TEST(RuleFile, WrongShapesAreRefused) {
    EXPECT_EQ(file_error(""), "r.toml: holds no rule; write [[rule]] with kind = \"KIND\"");
    EXPECT_EQ(file_error("# nothing\n"), file_error(""));
    EXPECT_THAT(file_error("[rule]\nkind = \"keep\"\n"), HasSubstr("two brackets"));
    EXPECT_THAT(file_error("rule = [1]\n"), HasSubstr("a rule is a table"));
    EXPECT_THAT(file_error("seed = -1\n"), HasSubstr("key seed: is not a whole number"));
    EXPECT_THAT(file_error("malformed = 1\n"), HasSubstr("neither \"keep\" nor \"drop\""));
    EXPECT_THAT(file_error("[[rule]]\nkind=\"keep\"\nwhere = 1\n"), HasSubstr("where is a table"));
    EXPECT_THAT(file_error("[[rule]]\nkind=\"keep\"\nshare = []\n"),
                HasSubstr("r.toml:3: key share: has no value"));
    EXPECT_THAT(file_error("[[rule]]\nkind=\"keep\"\nto = [[1]]\n"),
                HasSubstr("pair of two values"));
    EXPECT_THAT(file_error("[[rule]]\nkind=\"keep\"\nto = [{a = 1}]\n"), HasSubstr("is not text"));
    EXPECT_THAT(file_error("[[rule]]\nkind=\"keep\"\nto = 11:00:00\n"), HasSubstr("is not text"));
}

TEST(RuleFile, FilesThatCannotBeRead) {
    const TemporaryFolder folder;
    RuleSet set;
    const auto error = [&](const std::string& path) -> std::string {
        try {
            read_rule_file(path, set);
        } catch (const RuleError& caught) {
            return caught.what();
        }
        return "";
    };
    EXPECT_THAT(
        error(folder.file("none.toml")),
        HasSubstr(
            "none.toml: cannot read the rule file: No such file or directory; check the path"));
    EXPECT_THAT(error(folder.file("")), HasSubstr("Is a directory"));
    std::ofstream(folder.file("empty.toml")).close();
    EXPECT_THAT(error(folder.file("empty.toml")), HasSubstr("holds no rule"));
    std::ofstream(folder.file("big.toml")) << std::string(2'000'000, '#');
    EXPECT_THAT(error(folder.file("big.toml")), HasSubstr("is it a rule file?"));
    std::ofstream(folder.file("good.toml")) << "[[rule]]\nkind = \"keep\"\nshare = 5\n";
    EXPECT_EQ(error(folder.file("good.toml")), "");
    EXPECT_EQ(set.rules.size(), 1U);
}

} // namespace
} // namespace reprise::rules
