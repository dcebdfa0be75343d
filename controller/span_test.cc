#include "controller/span.hh"
#include "core/base/clock.hh"
#include "core/base/trace_time.hh"

#include <gtest/gtest.h>

namespace reprise::controller {
namespace {

TEST(Span, RelativeTimesCountFromTheFirstQuery) {
    Span span(TraceTime::parse("1"), TraceTime::parse("2.5"));
    span.set_first(100 * kSecond);
    EXPECT_TRUE(span.before(101 * kSecond - 1));
    EXPECT_FALSE(span.before(101 * kSecond));
    EXPECT_FALSE(span.after(102 * kSecond));
    EXPECT_TRUE(span.after(102 * kSecond + kSecond / 2));
}

TEST(Span, WithoutTimesEverythingIsIn) {
    const Span span({}, {});
    EXPECT_FALSE(span.before(0));
    EXPECT_FALSE(span.after(1'475'762'151 * kSecond));
}

} // namespace
} // namespace reprise::controller
