#include "controller/trace_time.hh"
#include "core/base/clock.hh"

#include <gtest/gtest.h>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::controller {
namespace {

struct Case {
    const char* text;
    bool absolute;
    Nanoseconds value;
};

class TraceTimes : public ::testing::TestWithParam<Case> {};

TEST_P(TraceTimes, AreRead) {
    const auto moment = TraceTime::parse(GetParam().text);
    ASSERT_TRUE(moment);
    EXPECT_EQ(moment->absolute, GetParam().absolute);
    EXPECT_EQ(moment->value, GetParam().value);
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
                      Case{"2016-10-06T08:25:51.5-05:30", true, 1'475'762'151'500 * kMillisecond}));

TEST(TraceTime, OtherTextIsRefused) {
    for (const char* bad :
         {"", "-1", "1e3", " 1", "1 ", "1.", ".5", "1.0000000001", "99999999999999999999",
          "2016-10-06", "2016-10-06T13:55:51", "2016-10-06 13:55:51Z", "2016-02-30T00:00:00Z",
          "2016-10-06T13:55:51.Z", "2016-10-06T13:55:51+2", "2016-10-06T13:55:51+25:00", "noon"}) {
        EXPECT_FALSE(TraceTime::parse(bad)) << bad;
    }
}

TEST(Span, RelativeMomentsCountFromTheFirstQuery) {
    Span span(TraceTime::parse("1"), TraceTime::parse("2.5"));
    span.set_first(100 * kSecond);
    EXPECT_TRUE(span.before(101 * kSecond - 1));
    EXPECT_FALSE(span.before(101 * kSecond));
    EXPECT_FALSE(span.after(102 * kSecond));
    EXPECT_TRUE(span.after(102 * kSecond + kSecond / 2));
}

TEST(Span, WithoutMomentsEverythingIsIn) {
    const Span span({}, {});
    EXPECT_FALSE(span.before(0));
    EXPECT_FALSE(span.after(1'475'762'151 * kSecond));
}

} // namespace
} // namespace reprise::controller

// NOLINTEND(bugprone-unchecked-optional-access)
