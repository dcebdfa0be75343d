#include "controller/controller.hh"
#include "controller/options.hh"
#include "controller/testing/tiny_trace.hh"
#include "controller/trace_feed.hh"
#include "core/base/error.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

using testing::dns;
using ::testing::HasSubstr;
using testing::ipv4;
using testing::ipv6;
using testing::udp;

class TraceFeedTest : public testing::TinyTrace {};

TEST_F(TraceFeedTest, NumbersEveryQueryAndSaysWhyOneIsSkipped) {
    const Servers v4_only = parse_servers({"198.18.0.53"}, 53);
    write({ipv4(1, udp(dns(0x0100), 1000, 53)), ipv4(2, udp(dns(0x2800), 1000, 53)),
           ipv6(udp(dns(0), 1000, 53)), ipv4(1, udp(dns(0x8400), 53, 1000)),
           ipv4(3, udp(dns(0), 1000, 53))});
    TraceFeed feed(options_, v4_only);
    Query query;
    ASSERT_TRUE(feed.next(query));
    EXPECT_EQ(query.sequence, 0U);
    EXPECT_EQ(query.source_id, 0U);
    EXPECT_EQ(query.time, 1'000'000'000 * kSecond);
    ASSERT_TRUE(feed.next(query));
    EXPECT_EQ(query.sequence, 3U);
    EXPECT_EQ(query.source_id, 1U);
    EXPECT_EQ(query.source.address.text(), "192.0.2.3");
    EXPECT_FALSE(feed.next(query));
    EXPECT_EQ(feed.state().read, 4U);
    EXPECT_EQ(feed.state().responses, 1U);
    EXPECT_EQ(feed.state().skipped.named().at("update"), 1U);
    EXPECT_EQ(feed.state().skipped.named().at("no_ipv6_server"), 1U);
    feed.sources().flush();
    EXPECT_EQ(read_file(folder_ + "/sources.csv"), "id,address\n0,192.0.2.1\n1,192.0.2.3\n");
}

TEST_F(TraceFeedTest, AllOpcodesAreHandedOutWhenAsked) {
    options_.replay.all_opcodes = true;
    write({ipv4(2, udp(dns(0x2800), 1000, 53)), ipv6(udp(dns(0x2000), 1000, 53))});
    TraceFeed feed(options_, parse_servers({"198.18.0.53", "fd00::53"}, 53));
    Query query;
    EXPECT_TRUE(feed.next(query));
    EXPECT_TRUE(feed.next(query));
    EXPECT_FALSE(feed.next(query));
    EXPECT_EQ(feed.state().skipped.sum(), 0U);
}

TEST_F(TraceFeedTest, QueriesWithoutRdAreCountedInEveryLap) {
    options_.replay.loop = 2;
    write({ipv4(2, udp(dns(0), 1000, 53)), ipv4(2, udp(dns(0x0100), 1000, 53))});
    TraceFeed feed(options_, parse_servers({"198.18.0.53"}, 53));
    Query query;
    while (feed.next(query)) {
    }
    EXPECT_EQ(feed.state().read, 4U);
    EXPECT_EQ(feed.state().without_rd, 2U);
    EXPECT_EQ(feed.state().laps, 2U);
}

/// What a feed hands out.
class LimitedFeedTest : public testing::TinyTrace {
protected:
    struct Played {
        std::vector<Nanoseconds> due;
        std::vector<std::uint64_t> sequence;
        std::uint64_t read = 0;
        std::map<std::string, std::uint64_t> skipped;
    };

    Played play() {
        TraceFeed feed(options_, parse_servers({"198.18.0.53"}, 53));
        Played played;
        Query query;
        while (feed.next(query) && played.due.size() < 1000) {
            played.due.push_back(query.due);
            played.sequence.push_back(query.sequence);
        }
        played.read = feed.state().read;
        played.skipped = feed.state().skipped.named();
        return played;
    }
};

using Times = std::vector<Nanoseconds>;
using Skips = std::map<std::string, std::uint64_t>;

TEST_F(LimitedFeedTest, FromSkipsAndUntilEndsTheReading) {
    write_many(10); // at 0, 1, ... 9 ns
    options_.replay.from = "0.000000003";
    options_.replay.until = "0.000000006";
    const Played played = play();
    EXPECT_EQ(played.due, (Times{0, 1, 2}));
    EXPECT_EQ(played.sequence, (std::vector<std::uint64_t>{3, 4, 5}));
    EXPECT_EQ(played.read, 6U);
    EXPECT_EQ(played.skipped, (Skips{{"from", 3}}));
}

TEST_F(LimitedFeedTest, LimitAndDurationEndTheReading) {
    write_many(10);
    options_.replay.limit = 4;
    EXPECT_EQ(play().due, (Times{0, 1, 2, 3}));
    EXPECT_EQ(play().read, 4U);
    options_.replay.limit = 0;
    options_.replay.duration_s = 3e-9;
    EXPECT_EQ(play().due, (Times{0, 1, 2}));
    EXPECT_EQ(play().read, 3U);
}

TEST_F(LimitedFeedTest, AnUntilBeforeTheTraceReadsNothing) {
    write_many(3);
    options_.replay.until = "500000000"; // the trace begins at 1000000000
    EXPECT_EQ(play().read, 0U);
    TraceFeed feed(options_, parse_servers({"198.18.0.53"}, 53));
    Query query;
    EXPECT_FALSE(feed.next(query));
    EXPECT_THAT(no_queries(options_, feed.state()),
                HasSubstr("lies before replay.until 500000000"));
}

TEST_F(LimitedFeedTest, LoopsGoOnInTimeAndNumbers) {
    write_many(3);
    options_.replay.loop = 3;
    const Played played = play();
    EXPECT_EQ(played.due, (Times{0, 1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(played.sequence.back(), 8U);
    EXPECT_EQ(played.read, 9U);
}

TEST_F(LimitedFeedTest, ALoopRepeatsTheSpan) {
    write_many(10);
    options_.replay.loop = 2;
    options_.replay.from = "0.000000004";
    options_.replay.until = "0.000000006";
    const Played played = play();
    EXPECT_EQ(played.due, (Times{0, 1, 2, 3}));
    EXPECT_EQ(played.read, 12U);
    EXPECT_EQ(played.skipped, (Skips{{"from", 8}}));
}

TEST_F(LimitedFeedTest, ALoopForEverEndsAtTheLimit) {
    write_many(3);
    options_.replay.loop = 0;
    options_.replay.limit = 100;
    EXPECT_EQ(play().due.size(), 100U);
}

TEST_F(LimitedFeedTest, ALoopInWhichNothingIsPlayedEnds) {
    write({ipv6(udp(dns(0), 1000, 53))});
    options_.replay.loop = 0;
    options_.replay.limit = 5;
    EXPECT_EQ(play().read, 1U);
}

TEST_F(LimitedFeedTest, SourcesKeepTheirIdsOverLaps) {
    write_many(12); // ten sources
    options_.replay.loop = 2;
    TraceFeed feed(options_, parse_servers({"198.18.0.53"}, 53));
    Query query;
    for (std::uint32_t i = 0; i < 24; ++i) {
        ASSERT_TRUE(feed.next(query));
        EXPECT_EQ(query.source_id, i % 12 % 10);
    }
    EXPECT_EQ(feed.state().sources, 10U);
}

TEST_F(LimitedFeedTest, ALapRepeatsNoQueryOfTheOneBefore) {
    write_many(12); // ten sources, of which two repeat their query
    options_.replay.loop = 3;
    options_.replay.collapse_retransmits = true;
    const Played played = play();
    EXPECT_EQ(played.due.size(), 30U);
    EXPECT_EQ(played.read, 36U);
    EXPECT_EQ(played.skipped, (Skips{{"retransmit", 6}}));
}

TEST_F(LimitedFeedTest, AGapOfDaysEndsTheReading) {
    const auto row = [](int second) { return std::to_string(second) + "\t192.0.2.1\t.\tNS\n"; };
    std::ofstream(options_.trace) << "#reprise-text 1\ntime\tsource\tname\ttype\n"
                                  << row(1000) + row(1001) + row(173'801) + row(1002);
    EXPECT_THROW(play(), Error);
    options_.replay.speed = 4;
    EXPECT_EQ(play().due.back(), 172'801 * kSecond / 4) << "half a day";
    options_.replay.speed = 1;
    options_.replay.limit = 3;
    EXPECT_EQ(play().due, (Times{0, kSecond, 172'801 * kSecond}));
}

TEST_F(LimitedFeedTest, StopsAlsoWhereNothingIsHandedOut) {
    std::ofstream trace(options_.trace);
    trace << "#reprise-text 1\ntime\tsource\tname\ttype\n1000\t192.0.2.1\t.\tNS\n";
    for (int i = 0; i < 1000; ++i) {
        trace << "1001\t2001:db8::1\t.\tNS\n";
    }
    trace.close();
    TraceFeed feed(options_, parse_servers({"198.18.0.53"}, 53));
    Query query;
    ASSERT_TRUE(feed.next(query));
    feed.stop_in(20);
    EXPECT_FALSE(feed.stopped());
    EXPECT_FALSE(feed.next(query));
    EXPECT_TRUE(feed.stopped());
    EXPECT_LT(feed.state().read, 100U) << "read in small pieces";
}

TEST_F(LimitedFeedTest, TheGeneratorNeedsNoTrace) {
    options_.trace = "";
    options_.generate = "example.com/AAAA";
    options_.generate_sources = 2;
    options_.replay.rate = 1000;
    options_.replay.limit = 4;
    const Played played = play();
    EXPECT_EQ(played.due, (Times{0, kMillisecond, 2 * kMillisecond, 3 * kMillisecond}));
    EXPECT_EQ(played.read, 4U);
}

TEST_F(LimitedFeedTest, AGeneratorOfWhichNoSourceMayAskEnds) {
    options_.trace = "";
    options_.generate = "example.com";
    options_.generate_sources = 3;
    options_.replay.fast = true;
    options_.replay.duration_s = 1;
    options_.replay.skip_sources = {"10.0.0.0/8"};
    TraceFeed feed(options_, parse_servers({"198.18.0.53"}, 53));
    Query query;
    EXPECT_FALSE(feed.next(query));
    EXPECT_EQ(feed.state().read, 3U);
    EXPECT_THAT(no_queries(options_, feed.state()),
                ::testing::StartsWith("none of the 3 queries of generator of example.com can be "
                                      "sent (source_prefix 3); "));
}

} // namespace
} // namespace reprise::controller
