#include "controller/controller.hh"
#include "controller/options.hh"
#include "core/base/error.hh"
#include "core/rules/engine/catalog.hh"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace reprise::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::TempDir;

class CheckTest : public ::testing::Test {
protected:
    CheckTest() {
        options_.servers = {"127.0.0.1"};
        options_.distributors = {"127.0.0.1:4853"};
        options_.check = "trace";
        options_.trace = TempDir() + "check.tsv";
    }

    /// Rows of time, source and transport.
    void write(const std::string& rows) const {
        std::ofstream(options_.trace) << "#reprise-text 1\ntime\tsource\ttransport\tname\ttype\n"
                                      << rows;
    }

    std::string complaint() {
        try {
            check(options_);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }

    /// As check() tells them.
    double queries_told() {
        constexpr std::string_view kBefore = "extent queries=";
        const std::string line = check(options_);
        EXPECT_THAT(line, StartsWith(kBefore));
        return std::atof(line.c_str() + kBefore.size());
    }

    Options options_;
};

const std::string kUdp = "1000\t192.0.2.1\tudp\t.\tNS\n";
const std::string kQuic = "1001\t192.0.2.1\tquic\t.\tNS\n";
const std::string kIpv6 = "1002\t2001:db8::1\tudp\t.\tNS\n";

TEST_F(CheckTest, OneQueryThatCanBePlayedIsEnough) {
    write(kQuic + kIpv6 + kUdp + "what comes behind it may be anything\n");
    EXPECT_EQ(complaint(), "");
}

TEST_F(CheckTest, TheExtentIsOfWhatIsPlayed) {
    write(kUdp + kQuic + kIpv6 + "1030\t192.0.2.1\tudp\t.\tNS\n1031\t192.0.2.1\tudp\t.\tNS\n");
    EXPECT_EQ(check(options_), "extent queries=3 span_s=31.000\n");
    options_.replay.until = "31";
    EXPECT_EQ(check(options_), "extent queries=2 span_s=30.000\n");
    options_.check = "options";
    EXPECT_EQ(check(options_), "");
}

TEST_F(CheckTest, WhatFollowsIsLikeTheBeginning) {
    std::string rows;
    for (int i = 0; i < 200'000; ++i) {
        rows += fmt::format("{:06}\t192.0.2.1\tudp\t.\tNS\n", 1000 + i);
    }
    write(rows);
    EXPECT_NEAR(queries_told(), 200'000, 40'000); // the file is read in large pieces
    options_.replay.until = "150000";
    EXPECT_NEAR(queries_told(), 150'000, 1'500);
    options_.replay.until = "5000";
    EXPECT_EQ(queries_told(), 5'000);
}

TEST_F(CheckTest, ATraceWithoutQueries) {
    write("");
    EXPECT_THAT(complaint(), HasSubstr("no DNS queries to replay in " + options_.trace));
    options_.check = "options";
    EXPECT_EQ(complaint(), "");
}

TEST_F(CheckTest, NothingThatCanBePlayed) {
    write(kQuic + kIpv6 + kIpv6);
    EXPECT_THAT(complaint(), HasSubstr("none of the 3 queries of " + options_.trace +
                                       " can be sent (no_ipv6_server 2, transport 1)"));
}

TEST_F(CheckTest, RulesAreApplied) {
    rules::parse_rule_file("[[rule]]\nkind = 'duplicate'\ncopies = 3", "r.toml", options_.rules);
    write(kUdp + "1030\t192.0.2.1\tudp\t.\tNS\n");
    EXPECT_EQ(queries_told(), 6);
    rules::parse_rule_file("[[rule]]\nkind = 'drop'\nwhere.type = 'NS'", "r.toml", options_.rules);
    EXPECT_EQ(complaint(),
              "the rules leave none of the 2 queries of " + options_.trace + "; change them");
    options_.rules.rules.clear();
    rules::parse_rule_file("[[rule]]\nkind = 'heavy'\ntop = 3", "r.toml", options_.rules);
    options_.check = "options";
    EXPECT_EQ(complaint(),
              "r.toml:1: rule heavy: reads the trace twice; change the trace before it "
              "is played, with reprise mutate");
}

TEST_F(CheckTest, ASpanWithoutQueries) {
    write(kUdp);
    options_.replay.from = "5";
    EXPECT_THAT(complaint(), HasSubstr("lies at or after replay.from 5; "));
    options_.replay.from = "";
    options_.replay.until = "200000000"; // the epoch's
    write("300000000\t192.0.2.1\tudp\t.\tNS\n");
    EXPECT_THAT(complaint(), HasSubstr("lies before replay.until 200000000"));
}

TEST_F(CheckTest, ASpanOfQueriesThatCannotBePlayed) {
    options_.replay.until = "20";
    write(kIpv6 + kIpv6 + "1030\t192.0.2.1\tudp\t.\tNS\n");
    EXPECT_THAT(complaint(), HasSubstr("none of the 2 queries of " + options_.trace +
                                       " can be sent (no_ipv6_server 2)"));
}

TEST_F(CheckTest, AGapOfDaysIsNotWaitedFor) {
    write(kUdp + "315361000\t192.0.2.1\tudp\t.\tNS\n");
    EXPECT_THAT(complaint(),
                HasSubstr("has no query for 3650 days from second 0.000 of the trace on"));
    options_.replay.until = "5";
    EXPECT_EQ(complaint(), "");
    options_.replay.until = "";
    options_.replay.rate = 10;
    EXPECT_EQ(complaint(), "");
    write(kUdp + "87399\t192.0.2.1\tudp\t.\tNS\n");
    options_.replay.rate = 0;
    EXPECT_EQ(complaint(), "") << "less than a day";
    options_.replay.speed = 0.1;
    write(kUdp + "1475762100\t192.0.2.1\tudp\t.\tNS\n");
    EXPECT_THAT(complaint(), HasSubstr("has no query for")) << "beyond 64 bits of nanoseconds";
}

TEST_F(CheckTest, Addresses) {
    options_.check = "options";
    options_.servers = {"127.0.0.1", "127.0.0.2"};
    EXPECT_THAT(complaint(), HasSubstr("only one address of each family"));
    options_.servers = {"127.0.0.1"};
    options_.distributors = {"nowhere"};
    EXPECT_THAT(complaint(), HasSubstr("--distributor nowhere"));
}

} // namespace
} // namespace reprise::controller
