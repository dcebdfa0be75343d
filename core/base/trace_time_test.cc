#include "core/base/clock.hh"
#include "core/base/trace_time.hh"

#include <gtest/gtest.h>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise {
namespace {

struct Case {
    const char* text;
    bool absolute;
    Nanoseconds value;
};

class TraceTimes : public ::testing::TestWithParam<Case> {};

TEST_P(TraceTimes, AreRead) {
    const auto time = TraceTime::parse(GetParam().text);
    ASSERT_TRUE(time);
    EXPECT_EQ(time->absolute, GetParam().absolute);
    EXPECT_EQ(time->value, GetParam().value);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, TraceTimes,
    ::testing::Values(Case{"0", false, 0}, Case{"12.5", false, 12'500 * kMillisecond},
                      Case{"0.000000001", false, 1}, Case{"99999999", false, 99'999'999 * kSecond},
                      Case{"100000000", true, 100'000'000 * kSecond},
                      Case{"1475762151.394", true, 1'475'762'151'394 * kMillisecond},
                      Case{"2016-10-06T13:55:51Z", true, 1'475'762'151 * kSecond},
                      Case{"2016-10-06T13:55:51.394Z", true, 1'475'762'151'394 * kMillisecond},
                      Case{"2016-10-06T15:55:51+02:00", true, 1'475'762'151 * kSecond},
                      Case{"2016-10-06 13:55:00.000000001Z", true, 1'475'762'100'000'000'001},
                      Case{"1969-12-31T23:59:59.5Z", true, -kSecond / 2},
                      Case{"2016-10-06T08:25:51.5-05:30", true, 1'475'762'151'500 * kMillisecond}));

TEST(TraceTime, OtherTextIsRefused) {
    for (const char* bad : {"",
                            "-1",
                            "1e3",
                            " 1",
                            "1 ",
                            "1.",
                            ".5",
                            "1.0000000001",
                            "99999999999999999999",
                            "99999999999",
                            "2016-10-06",
                            "2016-10-06T13:55:51",
                            "2016-10-06_13:55:51Z",
                            "2016-02-30T00:00:00Z",
                            "2016-13-06T13:55:00Z",
                            "2016-10-06T24:55:00Z",
                            "2016-10-06T13:55:60Z",
                            "2016-10-06T13:55:00xZ",
                            "2016-1--06T13:55:00Z",
                            "9999-10-06T13:55:00Z",
                            "2016-10-06T13:55:51.Z",
                            "2016-10-06T13:55:51+2",
                            "2016-10-06T13:55:51+25:00",
                            "noon"}) {
        EXPECT_FALSE(TraceTime::parse(bad)) << bad;
    }
}

TEST(TraceTime, RelativeOnesCountFromTheFirstQuery) {
    EXPECT_EQ(TraceTime::parse("1")->in_trace(100 * kSecond), 101 * kSecond);
    EXPECT_EQ(TraceTime::parse("100000000")->in_trace(100 * kSecond), 100'000'000 * kSecond);
}

TEST(Seconds, AreExact) {
    EXPECT_EQ(parse_seconds("0.000000001"), 1);
    EXPECT_EQ(parse_seconds("-0.5", true), -500'000'000);
    EXPECT_FALSE(parse_seconds("-0.5"));
    EXPECT_FALSE(parse_seconds("--1", true));
    EXPECT_FALSE(parse_seconds("1.-5"));
    EXPECT_FALSE(parse_seconds("9000000001"));
}

TEST(Seconds, NumbersAreWrittenAsTheyAreRead) {
    EXPECT_EQ(decimal_text(2.5), "2.5");
    EXPECT_EQ(decimal_text(0.000025), "0.000025000");
    EXPECT_EQ(parse_seconds(decimal_text(-0.000025), true), -25'000);
    EXPECT_EQ(decimal_text(1e-12), "1e-12");
}

} // namespace
} // namespace reprise

// NOLINTEND(bugprone-unchecked-optional-access)
