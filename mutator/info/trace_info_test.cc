#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/wire/query.hh"
#include "mutator/info/trace_info.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::mutator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

/// Four UDP queries of which two are answered, and one TCP connection with two queries.
TraceFigures small_trace() {
    TraceInfo info;
    const auto add = [&](Nanoseconds at, const std::vector<std::uint8_t>& bytes,
                         std::uint64_t connection = 0) {
        info.add(message_of(kStart + at, bytes, 40'000, connection));
    };
    add(0, query_bytes(1, "a"));
    add(100'000, reply_bytes(1, "a", 3));
    add(10'000'000, query_bytes(2, "b", 28));
    add(10'300'000, reply_bytes(2, "b", 0, 28));
    add(20'000'000, query_bytes(3, "c"));
    add(30'000'000, query_bytes(4, "d"), 9);
    add(30'000'000, query_bytes(5, "e"), 9);
    std::vector<std::uint8_t> edns;
    build_query(edns, {.id = 6, .type = 43, .edns = true, .dnssec_ok = true, .edns_size = 4096},
                parse_name("f")->bytes());
    add(kSecond, edns);
    info.finish();
    return info.figures();
}

TEST(TraceInfo, CountsASmallTrace) {
    const TraceFigures figures = small_trace();
    EXPECT_EQ(figures.all.queries, 6U);
    EXPECT_EQ(figures.all.responses, 2U);
    EXPECT_EQ(figures.transports.at("tcp").queries, 2U);
    EXPECT_EQ(figures.last - figures.first, kSecond);
    EXPECT_DOUBLE_EQ(figures.rate(), 5);
    EXPECT_EQ(figures.peak.queries(), 5U);
    EXPECT_EQ(figures.peak.second(), 1'475'762'100);
    EXPECT_THAT(figures.types, ElementsAre(Pair(1, 4), Pair(28, 1), Pair(43, 1)));
    EXPECT_THAT(figures.rcodes, ElementsAre(Pair(0, 1), Pair(3, 1)));
    EXPECT_THAT(figures.connections.by_queries(), ElementsAre(Pair(2, 1)));
    EXPECT_EQ(figures.edns, 1U);
    EXPECT_EQ(figures.dnssec_ok, 1U);
    EXPECT_EQ(figures.pairs.matched, 2U);
    EXPECT_EQ(figures.pairs.unanswered, 4U);
    EXPECT_EQ(figures.rtt.min(), 100'000);
    EXPECT_EQ(figures.rtt.max(), 300'000);
    EXPECT_EQ(figures.gaps.min(), 0);
}

TEST(TraceInfo, AnEarlyConnectionAmongManyIsCountedOnce) {
    constexpr std::uint64_t kMany = 300'000;
    ConnectionTally tally;
    for (std::uint64_t connection = 1; connection <= kMany; ++connection) {
        if (connection % 10 == 0) {
            tally.add(1);
        }
        tally.add(connection);
    }
    EXPECT_EQ(tally.queries(), kMany + kMany / 10);
    EXPECT_EQ(tally.connections(), kMany);
    EXPECT_THAT(tally.by_queries(), ElementsAre(Pair(1, kMany - 1), Pair(kMany / 10 + 1, 1)));
}

TEST(TraceInfo, TextNamesWhatMatters) {
    const std::string text = info_text({.path = "x.pcap",
                                        .description = "pcap",
                                        .packets = 1234567,
                                        .counters = {{"fragments_lost", 3}},
                                        .trouble = ""},
                                       small_trace());
    EXPECT_THAT(text, HasSubstr("packets         1,234,567\n"));
    EXPECT_THAT(text, HasSubstr("first query     2016-10-06T13:55:00.000000000Z\n"));
    EXPECT_THAT(text, HasSubstr("busiest second (13:55:00)"));
    EXPECT_THAT(text, HasSubstr("types           A 4 (66.7 %), AAAA 1 (16.7 %), DS 1"));
    EXPECT_THAT(text, HasSubstr("1 with queries, 2.00 queries each"));
    EXPECT_THAT(text, HasSubstr("reader          fragments_lost 3\n"));
    EXPECT_THAT(text, Not(HasSubstr("trouble")));
}

TEST(TraceInfo, QueriesWithoutAConnectionsNumberAreOnNone) {
    TraceInfo info;
    const auto bytes = query_bytes(1, "a");
    for (const std::uint64_t connection : {7U, 0U, 0U}) {
        Query query = message_of(kStart, bytes, 40'000, connection);
        query.transport = Transport::kTls;
        info.add(query);
    }
    info.finish();
    EXPECT_THAT(info_text({}, info.figures()), HasSubstr("1 with queries, 1.00 queries each"));
}

TEST(TraceInfo, JsonHasTheTrouble) {
    const std::string json = info_json(
        {.path = "x", .description = "y", .packets = 1, .counters = {}, .trouble = "cut \"here\""},
        small_trace());
    EXPECT_THAT(json, HasSubstr(R"("trouble":"cut \"here\"")"));
    EXPECT_THAT(json, HasSubstr(R"("queries":6,"responses":2)"));
    EXPECT_THAT(json, HasSubstr(R"("tcp":{"connections":1,"by_queries":{"2":1}})"));
}

TEST(TraceInfo, OneQueryHasNoRate) {
    TraceInfo info;
    const auto query = query_bytes(1, "a");
    info.add(message_of(kStart, query));
    info.finish();
    EXPECT_EQ(info.figures().rate(), 0);
    EXPECT_THAT(info_text({}, info.figures()), HasSubstr("1 distinct"));
}

TEST(TraceInfo, TopSourcesInOrder) {
    TraceFigures figures;
    for (const char* const source : {"192.0.2.1", "192.0.2.3", "192.0.2.2"}) {
        figures.sources.add(*IpAddress::parse(source));
    }
    figures.source_queries = {2, 5, 2};
    const auto top = figures.top_sources(2);
    EXPECT_THAT(top, ElementsAre(Pair(*IpAddress::parse("192.0.2.3"), 5),
                                 Pair(*IpAddress::parse("192.0.2.1"), 2)));
    EXPECT_EQ(figures.top_sources(9).size(), 3U);
}

TEST(TraceInfo, QueriesThatGoBackInTimeAreCounted) {
    TraceInfo info;
    const auto query = query_bytes(1, "a");
    info.add(message_of(kStart + 100, query));
    info.add(message_of(kStart + 50, query));
    info.add(message_of(kStart + 75, query));
    info.finish();
    EXPECT_EQ(info.figures().went_back, 1U);
    EXPECT_EQ(info.figures().gaps.min(), -50);
    EXPECT_EQ(info.figures().gaps.max(), 25);
    EXPECT_EQ(info.figures().first, kStart + 50);
    EXPECT_EQ(info.figures().last, kStart + 100);
}

TEST(TraceInfo, NamesCountWithoutRegardToCase) {
    TraceInfo info;
    for (const char* const name : {"wWw.EXAMPLE", "www.example"}) {
        info.add(message_of(kStart, query_bytes(1, name)));
    }
    const auto top = info.figures().names.top(5);
    ASSERT_EQ(top.size(), 1U);
    EXPECT_EQ(name_text(bytes_of(top[0].first)), "www.example.");
    EXPECT_EQ(top[0].second, 2U);
}

/// One name more than are counted exactly, each asked for once: all are forgotten at once.
TEST(TraceInfo, TellsOfNamesThatItForgot) {
    TraceInfo info;
    auto bytes = query_bytes(1, "00000");
    const Query query = message_of(kStart, bytes);
    for (unsigned i = 0; i <= 65'536; ++i) {
        for (unsigned digit = 17, rest = i; digit > 12; --digit, rest /= 10) {
            bytes[digit] = static_cast<std::uint8_t>('0' + rest % 10);
        }
        info.add(query);
    }
    info.finish();
    EXPECT_THAT(info_text({}, info.figures()), HasSubstr("names           about 6"));
}

} // namespace
} // namespace reprise::mutator

// NOLINTEND(bugprone-unchecked-optional-access)
