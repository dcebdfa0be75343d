#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/testing/rules.hh"
#include "core/testing/support.hh"
#include "core/trace/batch.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace reprise::rules {
namespace {

using testing::HasSubstr;

Selector selector_of(const std::string& value, std::uint64_t seed = 1) {
    Arguments arguments = parse_rule_option("keep", value);
    return {arguments, seed, Closes::kNone};
}

size_t kept(const std::string& value, const std::vector<Owned>& trace) {
    return run("keep", value, trace).size();
}

/// A query with flags and, where `edns` is 0 or 1, an OPT record with that DO bit.
Owned query_with(std::uint16_t flags, int edns = -1) {
    Owned query = query_at(0, "192.0.2.1");
    query.message[2] = static_cast<std::uint8_t>(flags >> 8U);
    query.message[3] = static_cast<std::uint8_t>(flags);
    if (edns >= 0) {
        query.message[11] = 1;
        const auto bit = static_cast<std::uint8_t>(edns << 7);
        query.message.insert(query.message.end(), {0, 0, 41, 4, 208, 0, 0, bit, 0, 0, 0});
    }
    return query;
}

TEST(Share, IsExactToOneQueryAtEveryPoint) {
    for (const double percent : {0.01, 1.0, 3.7, 33.3, 40.0, 50.0, 62.5, 90.0, 99.9}) {
        for (const std::uint64_t seed : {1U, 2U, 3U}) {
            Selector selector = selector_of("share=" + std::to_string(percent), seed);
            Owned query = query_at(0);
            Batch batch;
            fill(batch, {query}, 0, 1);
            double taken = 0;
            for (std::uint64_t asked = 1; asked <= 20'000; ++asked) {
                taken += selector.takes(batch.queries[0]) ? 1 : 0;
                const double due = static_cast<double>(asked) * percent / 100;
                ASSERT_LT(std::abs(taken - due), 1.000001) << percent << " after " << asked;
            }
        }
    }
}

TEST(Share, DoesNotBeatWithAPatternOfTheTrace) {
    // A and AAAA in turns: half of each is taken, not all of one.
    std::vector<Owned> trace;
    for (int i = 0; i < 20'000; ++i) {
        trace.push_back(query_at(i));
        trace.back().message = query_bytes(1, "example", i % 2 == 0 ? 1 : 28);
    }
    const auto out = run("keep", "share=50", trace);
    ASSERT_EQ(out.size(), 10'000U);
    const auto a = std::ranges::count_if(out, [](const Owned& q) { return q.time % 2 == 0; });
    EXPECT_NEAR(static_cast<double>(a), 5000, 300);
}

TEST(Share, EndsOfTheRange) {
    const auto trace = steady(1000, 1);
    EXPECT_EQ(kept("share=0,where.type=A", trace), 0U);
    EXPECT_EQ(kept("share=100,where.type=A", trace), 1000U);
    EXPECT_THAT(complaint("keep", "share=100.001"), HasSubstr("is not a number from 0 to 100"));
    EXPECT_THAT(complaint("keep", "share=-0.1"), HasSubstr("is not a number from 0 to 100"));
    EXPECT_THAT(complaint("keep", "share=5,by=sourcce"), HasSubstr("did you mean source?"));
}

TEST(Share, CountsOnlyWhatPassesTheFilter) {
    std::vector<Owned> trace = steady(10'000, 1);
    const auto out = run("keep", "share=25,where.source=192.0.2.1", trace);
    EXPECT_EQ(out.size(), 250U);
}

TEST(Share, BySourceTakesAllOfASourceOrNone) {
    std::vector<Owned> trace;
    for (int i = 0; i < 20'000; ++i) {
        const int source = i % 4000;
        trace.push_back(query_at(i, "10.0." + std::to_string(source / 250) + "." +
                                        std::to_string(source % 250)));
    }
    const auto out = run("keep", "share=30,by=source", trace);
    std::set<IpAddress> sources;
    for (const Owned& query : out) {
        sources.insert(query.source.address);
    }
    EXPECT_EQ(out.size(), sources.size() * 5);
    EXPECT_NEAR(static_cast<double>(sources.size()), 1200, 120);
    EXPECT_EQ(run("keep", "share=30,by=source", out), out);
}

TEST(Where, TypeAndName) {
    std::vector<Owned> trace{query_at(0, "192.0.2.1", 1, "www.Example.com"),
                             query_at(1, "192.0.2.1", 1, "anexample.com"),
                             query_at(2, "192.0.2.1", 1, "com")};
    trace[2].message = query_bytes(1, "com", 28);
    EXPECT_EQ(kept("where.type=AAAA", trace), 1U);
    EXPECT_EQ(kept("where.type=A,AAAA", trace), 3U);
    EXPECT_EQ(kept("where.name=example.com", trace), 1U);
    EXPECT_EQ(kept("where.name=EXAMPLE.com.,anexample.com", trace), 2U);
    EXPECT_EQ(kept("where.name=.", trace), 3U);
    EXPECT_EQ(kept("where.name=com,where.type=AAAA", trace), 1U);
}

TEST(Where, MalformedMessagesHaveNoTypeOrName) {
    std::vector<Owned> trace{query_at(0)};
    trace[0].message.resize(13);
    EXPECT_EQ(kept("where.type=A", trace), 0U);
    EXPECT_EQ(kept("where.name=.", trace), 0U);
    EXPECT_EQ(kept("where.opcode=QUERY", trace), 1U);
    trace[0].message.resize(3);
    EXPECT_EQ(kept("where.opcode=QUERY", trace), 0U);
}

TEST(Where, FlagsOpcodeEdnsDo) {
    const std::vector<Owned> trace{query_with(0x0110), query_with(0x0100, 0),
                                   query_with(0x2000, 1)};
    EXPECT_EQ(kept("where.flags=rd", trace), 2U);
    EXPECT_EQ(kept("where.flags=rd,cd", trace), 1U);
    EXPECT_EQ(kept("where.opcode=NOTIFY", trace), 1U);
    EXPECT_EQ(kept("where.opcode=0", trace), 2U);
    EXPECT_EQ(kept("where.edns=on", trace), 2U);
    EXPECT_EQ(kept("where.edns=off", trace), 1U);
    EXPECT_EQ(kept("where.do=on", trace), 1U);
    EXPECT_EQ(kept("where.do=off", trace), 2U);
    EXPECT_EQ(kept("where.do=off,where.edns=on", trace), 1U);
    EXPECT_THAT(complaint("keep", "where.edns=off,where.do=on"), HasSubstr("has the DO bit"));
}

TEST(Where, AddressesAndTransport) {
    std::vector<Owned> trace{query_at(0, "192.0.2.1"), query_at(1, "2001:db8::1"), tcp_at(2, 1)};
    EXPECT_EQ(kept("where.source=192.0.2.0/24", trace), 2U);
    EXPECT_EQ(kept("where.source=192.0.2.0/24,2001:db8::/32", trace), 3U);
    EXPECT_EQ(kept("where.destination=192.0.2.53", trace), 3U);
    EXPECT_EQ(kept("where.destination=192.0.2.54", trace), 0U);
    EXPECT_EQ(kept("where.transport=tcp", trace), 1U);
    EXPECT_EQ(kept("where.transport=tcp,udp", trace), 3U);
}

TEST(Where, TimesFromTheFirstQueryAndAbsolute) {
    const auto trace = steady(100, kSecond, 1'475'762'100 * kSecond);
    EXPECT_EQ(kept("where.from=10", trace), 90U);
    EXPECT_EQ(kept("where.until=10", trace), 10U);
    EXPECT_EQ(kept("where.from=10.5,where.until=20", trace), 9U);
    EXPECT_EQ(kept("where.from=1475762110", trace), 90U);
    EXPECT_EQ(kept("where.from=2016-10-06T13:55:10Z,where.until=15", trace), 5U);
    EXPECT_THAT(complaint("keep", "where.from=10,where.until=10"), HasSubstr("is not later"));
}

TEST(StickyMix, FollowsTheWeights) {
    const auto number = [](const std::string& text) { return std::stoul(text); };
    const StickyMix<size_t> mix({{"0", 50}, {"1", 30}, {"2", 0}, {"3", 20}}, 1, number);
    const StickyMix<size_t> lone({{"7", 1}}, 1, number);
    std::array<int, 4> drawn{};
    IpAddress source{.bytes = {}, .family = 4};
    for (std::uint32_t i = 0; i < 100'000; ++i) {
        std::memcpy(source.bytes.data(), &i, sizeof i);
        ++drawn.at(mix.draw(source));
        EXPECT_EQ(lone.draw(source), 7U);
    }
    EXPECT_NEAR(drawn[0], 50'000, 700);
    EXPECT_NEAR(drawn[1], 30'000, 700);
    EXPECT_EQ(drawn[2], 0);
    EXPECT_NEAR(drawn[3], 20'000, 700);
}

} // namespace
} // namespace reprise::rules
