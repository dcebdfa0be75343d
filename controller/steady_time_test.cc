#include "controller/options.hh"
#include "controller/testing/tiny_trace.hh"
#include "controller/trace_feed.hh"
#include "core/base/trace_time.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

using ::testing::ElementsAre;

TEST(SteadyTime, AStepBackGoesOnFromTheLatestTime) {
    SteadyTime time(10);
    EXPECT_EQ(time.of_query(100), 100);
    EXPECT_EQ(time.of_query(200), 200);
    EXPECT_EQ(time.of_query(190), 190) << "disorder";
    EXPECT_EQ(time.of_query(50), 200);
    EXPECT_EQ(time.of_close(55), 205);
    EXPECT_EQ(time.of_query(60), 210);
    EXPECT_EQ(time.of_query(5), 210) << "a second step";
    EXPECT_EQ(time.of_query(6), 211);
    EXPECT_EQ(time.steps(), 2U);
}

TEST(SteadyTime, ALapBeginsAnew) {
    SteadyTime time(10);
    time.of_query(200);
    time.of_query(50);
    time.next_lap();
    EXPECT_EQ(time.of_query(200), 200);
    EXPECT_EQ(time.of_query(50), 200);
    EXPECT_EQ(time.steps(), 2U);
}

TEST(SteadyTime, WithoutALimitNothingIsAStep) {
    SteadyTime time(std::nullopt);
    time.of_query(200);
    EXPECT_EQ(time.of_query(-50), -50);
    EXPECT_EQ(time.steps(), 0U);
}

TEST(SteadyTime, TimesAtTheEndsOfTheRange) {
    using Limits = std::numeric_limits<Nanoseconds>;
    SteadyTime time(10);
    time.of_query(Limits::max());
    time.of_query(Limits::min());
    time.of_query(Limits::max());
    time.of_query(0);
    EXPECT_EQ(time.of_close(Limits::max()), Limits::max());
}

class SteadyFeedTest : public testing::TinyTrace {
protected:
    /// Plays one query a line of `times`, as text.
    std::vector<Nanoseconds> play(const std::vector<std::string>& times) {
        std::string text = "#reprise-text 1\ntime\tsource\tname\ttype\n";
        for (const std::string& time : times) {
            text += time + "\t192.0.2.1\twww.example.\tA\n";
        }
        std::ofstream(options_.trace) << text;
        TraceFeed feed(options_, parse_servers({"198.18.0.53"}, 53));
        std::vector<Nanoseconds> due;
        Query query;
        while (feed.next(query)) {
            due.push_back(query.due);
        }
        steps_ = feed.state().clock_steps;
        return due;
    }

    std::uint64_t steps_ = 0;
};

TEST_F(SteadyFeedTest, QueriesBehindAStepArePlayedFromThereOn) {
    options_.replay.max_lateness_s = 1;
    EXPECT_THAT(play({"1000", "1002", "1001.5", "500", "501"}),
                ElementsAre(0, 2 * kSecond, 1'500 * kMillisecond, 2 * kSecond, 3 * kSecond));
    EXPECT_EQ(steps_, 1U);
}

/// What counts is how late the query would be, so at double speed two seconds are one.
TEST_F(SteadyFeedTest, TheLimitIsOfTheReplay) {
    options_.replay.speed = 2;
    EXPECT_THAT(play({"1000", "1002", "1000.5"}), ElementsAre(0, kSecond, 250 * kMillisecond));
    EXPECT_EQ(steps_, 0U);
    options_.replay.speed = 1;
    EXPECT_THAT(play({"1000", "1002", "1000.5"}), ElementsAre(0, 2 * kSecond, 2 * kSecond));
    EXPECT_EQ(steps_, 1U);
}

TEST_F(SteadyFeedTest, UntilCountsOnTheSteadyClock) {
    options_.replay.until = "3.5";
    EXPECT_THAT(play({"1000", "1002", "500", "501", "502"}),
                ElementsAre(0, 2 * kSecond, 2 * kSecond, 3 * kSecond));
}

} // namespace
} // namespace reprise::controller
