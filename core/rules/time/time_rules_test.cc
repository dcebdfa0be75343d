#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/testing/rules.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace reprise::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SpeedRule, DividesTheGaps) {
    const auto trace = steady(4, kSecond, kStart);
    EXPECT_THAT(
        times_of(run("speed", "4", trace)),
        ElementsAre(kStart, kStart + 250'000'000, kStart + 500'000'000, kStart + 750'000'000));
    EXPECT_THAT(
        times_of(run("speed", "factor=0.5", trace)),
        ElementsAre(kStart, kStart + 2 * kSecond, kStart + 4 * kSecond, kStart + 6 * kSecond));
}

TEST(SpeedRule, NoRoundingAddsUp) {
    const auto out = run("speed", "3", steady(30'001, 1, kStart), 999);
    EXPECT_EQ(out.back().time, kStart + 10'000);
    EXPECT_TRUE(std::ranges::is_sorted(times_of(out)));
}

TEST(SpeedRule, ASpanOfTheTraceKeepsTheOrder) {
    const auto out = run("speed", "10,where.from=2,where.until=4", steady(7, kSecond, kStart));
    EXPECT_TRUE(std::ranges::is_sorted(times_of(out)));
    EXPECT_EQ(out.back().time - kStart, 4'200'000'000); // two gaps of six are a tenth
}

TEST(SpeedRule, ClosesMoveWithTheTimes) {
    const std::vector<Owned> trace{tcp_at(kStart, 1), close_at(kStart + kSecond, 1)};
    EXPECT_THAT(times_of(run("speed", "2", trace)), ElementsAre(kStart, kStart + kSecond / 2));
}

TEST(ShiftRule, MovesAll) {
    const auto trace = steady(3, kSecond, kStart);
    EXPECT_THAT(times_of(run("shift", "-0.000000001", trace)),
                ElementsAre(kStart - 1, kStart + kSecond - 1, kStart + 2 * kSecond - 1));
    EXPECT_THAT(times_of(run("shift", "seconds=3600", trace)).front(), kStart + 3600 * kSecond);
    EXPECT_THAT(times_of(run("shift", "-1", steady(3, kSecond, kSecond))),
                ElementsAre(0, kSecond, 2 * kSecond));
}

std::string failure(const std::string& kind, const std::string& value,
                    const std::vector<Owned>& trace) {
    try {
        run(kind, value, trace);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(TimeRules, TimesThatLeaveTheRangeAreAnError) {
    const auto trace = steady(3, kSecond, kStart);
    EXPECT_THAT(failure("shift", "-2000000000", trace),
                HasSubstr("rule shift: would move a query before 1970; give a seconds= nearer"));
    EXPECT_THAT(failure("shift", "-1", steady(3, kSecond)), HasSubstr("before 1970"));
    EXPECT_THAT(failure("shift", "9000000000", trace), HasSubstr("behind the year 2149"));
    EXPECT_THAT(failure("shift", "-1,where.source=192.0.2.1", steady(3, kSecond)),
                HasSubstr("before 1970"));
    EXPECT_THAT(failure("speed", "0.000001", steady(3, 10'000 * kSecond, kStart)),
                HasSubstr("greater factor"));
    EXPECT_THAT(failure("gap", "1000000000", steady(9'000, 1, kStart)), HasSubstr("smaller gap"));
    EXPECT_EQ(failure("jitter", "1000000", steady(3, kSecond)), "");
}

TEST(TimeRules, WhatIsHeldInMemoryIsBounded) {
    EXPECT_THAT(complaint("jitter", "60000001"), HasSubstr("us"));
    EXPECT_EQ(complaint("jitter", "60000000"), "");
    EXPECT_THAT(complaint("shift", "3601,share=50"), HasSubstr("at most 3600"));
    EXPECT_THAT(complaint("shift", "-3600.5,where.type=A"), HasSubstr("at most 3600"));
    EXPECT_EQ(complaint("shift", "-3600,where.type=A"), "");
    EXPECT_EQ(complaint("shift", "3601"), "");
}

TEST(ShiftRule, SomeQueriesAreReordered) {
    const std::vector<Owned> trace{
        query_at(kStart, "192.0.2.1", 1), query_at(kStart + 10, "192.0.2.2", 2),
        query_at(kStart + 20, "192.0.2.1", 3), query_at(kStart + kSecond, "192.0.2.2", 4)};
    for (const size_t cut : {1U, 2U, 3U, 4U}) {
        const auto out = run("shift", "0.000000015,where.source=192.0.2.1", trace, cut);
        EXPECT_THAT(times_of(out),
                    ElementsAre(kStart + 10, kStart + 15, kStart + 35, kStart + kSecond));
        const auto early = run("shift", "-0.000000015,where.source=192.0.2.2", trace, cut);
        EXPECT_THAT(times_of(early),
                    ElementsAre(kStart - 5, kStart, kStart + 20, kStart + kSecond - 15));
    }
}

TEST(GapRule, IsExact) {
    const auto out = run("gap", "0.1", steady(10'000, 12'345, kStart), 77);
    for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i].time, kStart + static_cast<Nanoseconds>(i) * 100'000);
    }
    EXPECT_EQ(run("gap", "ms=0", steady(9, kSecond, kStart)).back().time, kStart);
}

TEST(GapRule, ClosesKeepTheirPlace) {
    const std::vector<Owned> trace{tcp_at(kStart, 1),
                                   close_at(kStart + 5, 1),
                                   query_at(kStart + kSecond),
                                   tcp_at(kStart + 2 * kSecond, 2),
                                   close_at(kStart + 4 * kSecond, 2),
                                   query_at(kStart + 5 * kSecond),
                                   close_at(kStart + 9 * kSecond, 3)};
    for (const size_t cut : {1U, 2U, 7U}) {
        EXPECT_THAT(times_of(run("gap", "1000", trace, cut)),
                    ElementsAre(kStart, kStart + 5, kStart + kSecond, kStart + 2 * kSecond,
                                kStart + 3 * kSecond, kStart + 3 * kSecond, kStart + 4 * kSecond));
    }
}

TEST(PoissonRule, RateAndSpread) {
    const auto rule = make_rule("poisson", "2000");
    const auto times = times_of(run(*rule, steady(100'000, 1, kStart), 1000));
    EXPECT_EQ(times.front(), kStart);
    EXPECT_TRUE(std::ranges::is_sorted(times));
    const double mean = static_cast<double>(times.back() - kStart) / 99'999;
    EXPECT_NEAR(mean, 500'000, 5'000);
    double squares = 0;
    for (size_t i = 1; i < times.size(); ++i) {
        const auto gap = static_cast<double>(times[i] - times[i - 1]);
        squares += gap * gap;
    }
    EXPECT_NEAR(squares / 99'999 / (mean * mean), 2, 0.03); // of an exponential distribution
    EXPECT_EQ(rule->counts().at("seen"), 100'000U);
    EXPECT_EQ(rule->counts().at("changed"), 99'999U);
}

TEST(JitterRule, IsUniformAndInOrder) {
    const auto trace = steady(100'000, kMicrosecond, kStart);
    const auto out = run("jitter", "50", trace, 1000);
    ASSERT_EQ(out.size(), trace.size());
    EXPECT_TRUE(std::ranges::is_sorted(times_of(out)));
    double sum = 0;
    double squares = 0;
    std::vector<bool> seen(65'536);
    for (const Owned& query : out) {
        const std::uint64_t low = query.message[0] * 256U + query.message[1];
        const auto near = (query.time - kStart) / 1000 / 65'536 * 65'536;
        Nanoseconds old = kStart + (near + static_cast<Nanoseconds>(low)) * kMicrosecond;
        if (old - query.time > 32'768'000) {
            old -= 65'536'000;
        } else if (query.time - old > 32'768'000) {
            old += 65'536'000;
        }
        const auto moved = static_cast<double>(query.time - old);
        ASSERT_LE(std::abs(moved), 50'000);
        sum += moved;
        squares += moved * moved;
    }
    EXPECT_NEAR(sum / 100'000, 0, 400);
    EXPECT_NEAR(std::sqrt(squares / 100'000), 50'000 / std::sqrt(3.0), 300);
}

TEST(JitterRule, EqualTimesKeepTheirOrder) {
    const auto trace = steady(1000, 0, kStart);
    EXPECT_EQ(run("jitter", "us=0", trace, 7), trace);
}

TEST(JitterRule, ACloseIsBehindItsQueries) {
    std::vector<Owned> trace;
    for (std::uint64_t i = 1; i <= 1000; ++i) {
        const auto time = kStart + static_cast<Nanoseconds>(i) * 10;
        trace.push_back(tcp_at(time, i));
        trace.push_back(close_at(time, i));
    }
    std::vector<bool> asked(1001);
    for (const Owned& query : run("jitter", "1", trace)) {
        EXPECT_TRUE(!query.is_close() || asked[query.connection]);
        asked[query.connection] = true;
    }
}

TEST(ProfileRule, InvertsTheIntegralOfTheRate) {
    const auto seconds = [](const std::string& points, size_t number) {
        const auto out = run("profile", points, steady(number + 1, 1, kStart));
        return static_cast<double>(out.back().time - kStart) / kSecond;
    };
    const std::string ramp = "0:0,10:100";
    EXPECT_EQ(seconds(ramp, 0), 0);
    EXPECT_NEAR(seconds(ramp, 5), 1, 1e-9);
    EXPECT_NEAR(seconds(ramp, 500), 10, 1e-9);
    EXPECT_NEAR(seconds(ramp, 600), 11, 1e-9);
    const std::string falling = "0:100,10:0,20:0,20:10";
    EXPECT_NEAR(seconds(falling, 375), 5, 1e-9);
    EXPECT_NEAR(seconds(falling, 501), 20.1, 1e-9);
}

TEST(ProfileRule, QueriesPerSecondFollowTheProfile) {
    const auto times = times_of(
        run("profile", "points=0:1000,10:1000,10:4000,20:2000", steady(60'000, 1, kStart), 512));
    const auto between = [&](Nanoseconds from, Nanoseconds until) {
        return std::ranges::count_if(times, [&](Nanoseconds time) {
            return time >= kStart + from * kSecond && time < kStart + until * kSecond;
        });
    };
    EXPECT_EQ(between(0, 10), 10'000);
    EXPECT_EQ(between(10, 20), 30'000);
    EXPECT_EQ(between(10, 11), 3'900);
    EXPECT_EQ(between(20, 25), 10'000);
    EXPECT_EQ(times[10], kStart + 10 * kMillisecond);
}

TEST(ProfileRule, PoissonHasTheSameRates) {
    const auto times =
        times_of(run("profile", "0:1000,60:3000,poisson=on", steady(120'000, 1, kStart)));
    EXPECT_TRUE(std::ranges::is_sorted(times));
    EXPECT_NEAR(static_cast<double>(times.back() - kStart) / 1e9, 60, 0.6);
}

TEST(TimeRules, TheSameWhateverTheBatches) {
    auto trace = steady(3000, kMillisecond, kStart);
    for (std::uint64_t i = 0; i < 300; ++i) {
        trace.push_back(i % 3 == 2 ? close_at(trace.back().time + 10, i - 1)
                                   : tcp_at(trace.back().time + kMillisecond, i));
    }
    std::swap(trace[100], trace[110]); // a capture may step back
    const std::vector<std::pair<std::string, std::string>> rules{
        {"speed", "3,share=40"},
        {"shift", "0.02,share=50"},
        {"shift", "5"},
        {"gap", "2"},
        {"poisson", "500"},
        {"jitter", "30000,share=70"},
        {"profile", "0:100,2:3000,poisson=on"}};
    for (const auto& [kind, value] : rules) {
        const auto whole = run(kind, value, trace);
        EXPECT_EQ(whole.size(), trace.size()) << kind;
        for (const size_t cut : {1U, 7U, 1000U}) {
            EXPECT_EQ(run(kind, value, trace, cut), whole) << kind << " " << cut;
        }
        EXPECT_EQ(run(kind, value, trace), whole) << kind;
    }
    EXPECT_NE(run("poisson", "500", trace, 4096, 1), run("poisson", "500", trace, 4096, 2));
    EXPECT_NE(run("jitter", "500", trace, 4096, 1), run("jitter", "500", trace, 4096, 2));
}

TEST(TimeRules, EmptyTracesAndBatches) {
    for (const auto& [kind, value] : std::vector<std::pair<std::string, std::string>>{
             {"speed", "2"}, {"jitter", "5"}, {"gap", "1"}, {"profile", "0:5"}}) {
        EXPECT_TRUE(run(kind, value, {}).empty());
        const auto rule = make_rule(kind, value);
        Batch batch;
        rule->apply(batch);
        EXPECT_EQ(rule->counts().at("seen"), 0U);
    }
}

TEST(TimeRules, Mistakes) {
    EXPECT_THAT(complaint("speed", "0"), HasSubstr("factor"));
    EXPECT_THAT(complaint("speed", "share=5"), HasSubstr("no factor="));
    EXPECT_THAT(complaint("speed", "facctor=2"), HasSubstr("factor"));
    EXPECT_THAT(complaint("shift", "soon"), HasSubstr("-0.5"));
    EXPECT_THAT(complaint("gap", "1,share=50"), HasSubstr("no share and no where"));
    EXPECT_THAT(complaint("poisson", "10,where.type=A"), HasSubstr("no share and no where"));
    EXPECT_EQ(complaint("gap", "1,share=100"), "");
    EXPECT_THAT(complaint("profile", "0:10,x"), HasSubstr("\"x\" is not SECONDS:RATE"));
    EXPECT_THAT(complaint("profile", "0:10,5"), HasSubstr("\"5\""));
    EXPECT_THAT(complaint("profile", "5:10,2:10"), HasSubstr("\"2:10\" is earlier"));
    EXPECT_THAT(complaint("profile", "0:10,5:0"), HasSubstr("the last with a rate above 0"));
    EXPECT_THAT(complaint("profile", "poisson=on"), HasSubstr("points"));
    EXPECT_THAT(complaint("jitter", "-1"), HasSubstr("us"));
}

} // namespace
} // namespace reprise::rules
