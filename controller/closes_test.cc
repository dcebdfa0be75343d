// The closes of the trace's clients between the queries of a replay.
#include "controller/options.hh"
#include "controller/testing/tiny_trace.hh"
#include "controller/trace_feed.hh"
#include "core/rules/engine/catalog.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

using testing::dns;
using ::testing::ElementsAre;
using testing::ipv4;
using testing::prefixed;
using testing::Raw;
using testing::tcp;
using testing::udp;

constexpr std::uint8_t kTcp = 6;
constexpr unsigned kUpdate = 0x2800;

/// A query over TCP of a host's connection (its port).
Raw ask(std::uint8_t host, unsigned port, unsigned flags = 0) {
    return ipv4(host, tcp(port, 1, 0x10, prefixed(dns(flags))), kTcp);
}

/// The host's FIN behind it.
Raw end(std::uint8_t host, unsigned port) {
    const auto size = static_cast<unsigned>(prefixed(dns(0)).size());
    return ipv4(host, tcp(port, 1 + size, 0x11), kTcp);
}

Raw ask_udp(std::uint8_t host) { return ipv4(host, udp(dns(0), 1000, 53)); }

/// Packets are a nanosecond apart. What is played is told as "q3@7": query 3, due after 7 ns;
/// "c2@7" is the close of connection 2.
class ClosesTest : public testing::TinyTrace {
protected:
    std::vector<std::string> play(size_t most = 100) {
        TraceFeed feed(options_, parse_servers({"198.18.0.53"}, 53));
        std::vector<std::string> out;
        played_.clear();
        Query query;
        while (out.size() < most && feed.next(query)) {
            const std::uint64_t number = query.is_close() ? query.connection : query.sequence;
            out.push_back((query.is_close() ? "c" : "q") + std::to_string(number) + "@" +
                          std::to_string(query.due));
            played_.push_back(query);
        }
        read_ = feed.state().read;
        return out;
    }

    std::vector<Query> played_; ///< their messages are gone
    std::uint64_t read_ = 0;
};

TEST_F(ClosesTest, FollowTheQueriesOfTheirConnection) {
    write({ask(1, 1000), ask(2, 1000), end(1, 1000), ask_udp(3), end(2, 1000), ask_udp(3)});
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@1", "c1@2", "q2@3", "c2@4", "q3@5"));
    EXPECT_EQ(read_, 4U) << "a close is no query";
    EXPECT_EQ(played_[2].source.text(), "192.0.2.1:1000");
    EXPECT_EQ(played_[2].destination.text(), "198.51.100.1:53");
    EXPECT_EQ(played_[2].source_id, played_[0].source_id);
    EXPECT_EQ(played_[2].connection, played_[0].connection);
    EXPECT_EQ(played_[2].transport, Transport::kTcp);
    EXPECT_EQ(played_[2].time, 1'000'000'000 * kSecond + 2);
}

TEST_F(ClosesTest, SeveralBetweenTwoQueriesKeepTheirOrder) {
    write({ask(1, 1000), ask(1, 1001), ask(1, 1002), end(1, 1001), end(1, 1002), end(1, 1000),
           ask_udp(1)});
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@1", "q2@2", "c2@3", "c3@4", "c1@5", "q3@6"));
}

TEST_F(ClosesTest, AfterTheLastQueryAreLeftOut) {
    write({ask(1, 1000), ask(2, 1000), end(1, 1000), end(2, 1000)});
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@1"));
}

TEST_F(ClosesTest, OfConnectionsThatAreNotPlayedAreLeftOut) {
    options_.replay.skip_sources = {"192.0.2.2/32"};
    write({ask(1, 1000, kUpdate), ask(2, 1000), ask(3, 1000), end(1, 1000), end(2, 1000),
           end(3, 1000), ask_udp(1)});
    EXPECT_THAT(play(), ElementsAre("q2@0", "c3@3", "q3@4"));
    EXPECT_EQ(played_[1].source_id, 0U) << "no source that is not played has an id";
}

TEST_F(ClosesTest, BeforeFromAndAfterUntilAreLeftOut) {
    write({ask(1, 1000), ask(2, 1000), end(1, 1000), ask(3, 1000), end(2, 1000), ask(4, 1000),
           end(3, 1000), ask_udp(1), end(4, 1000), ask_udp(1)});
    options_.replay.from = "0.000000003";
    options_.replay.until = "0.000000008";
    EXPECT_THAT(play(), ElementsAre("q2@0", "q3@2", "c3@3", "q4@4"));
}

TEST_F(ClosesTest, AreNotCountedByLimitAndEndWithIt) {
    write({ask(1, 1000), end(1, 1000), ask(2, 1000), end(2, 1000), ask_udp(1)});
    options_.replay.limit = 2;
    EXPECT_THAT(play(), ElementsAre("q0@0", "c1@1", "q1@2"));
    EXPECT_EQ(read_, 2U);
}

TEST_F(ClosesTest, EndWithTheDuration) {
    write({ask(1, 1000), end(1, 1000), ask(2, 1000), end(2, 1000), ask_udp(1)});
    options_.replay.duration_s = 3e-9;
    EXPECT_THAT(play(), ElementsAre("q0@0", "c1@1", "q1@2"));
}

TEST_F(ClosesTest, EachLapHasItsOwnConnections) {
    write({ask(1, 1000), end(1, 1000), ask(2, 1000), end(2, 1000)});
    options_.replay.loop = 2;
    // The second lap begins one mean gap (2 ns) after the last query of the first.
    EXPECT_THAT(play(), ElementsAre("q0@0", "c1@1", "q1@2", "c2@3", "q2@4", "c3@5", "q3@6"));
}

TEST_F(ClosesTest, LongAfterTheLapsLastQueryDoNotHoldUpTheNextLap) {
    const Raw response = ipv4(9, udp(dns(0x8000), 53, 1000));
    write({ask(1, 1000), ask(2, 1000), response, response, response, end(1, 1000)});
    options_.replay.loop = 2;
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@1", "c1@2", "q2@2", "q3@3"));
}

/// A segment before the FIN is lost, and the end told by a RST.
TEST_F(ClosesTest, ThatAreToldLateAreNotDueInThePast) {
    const Raw lost_before = ipv4(1, tcp(1000, 900, 0x11), kTcp);
    const Raw reset = ipv4(1, tcp(1000, 901, 0x04), kTcp);
    write({ask(1, 1000), lost_before, ask_udp(2), ask_udp(2), reset, ask_udp(2)});
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@2", "q2@3", "c1@3", "q3@5"));
}

TEST_F(ClosesTest, OfTheLapBeforeAreNotThoseOfThisLap) {
    write({ask(1, 1000), ask(2, 1000), end(1, 1000), ask_udp(3)});
    options_.replay.loop = 2;
    options_.replay.until = "0.000000002"; // the close is outside
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@1", "q2@2", "q3@3"));
}

TEST_F(ClosesTest, ALapOfClosesAloneIsNone) {
    write({ask(1, 1000, kUpdate), end(1, 1000)});
    options_.replay.loop = 0;
    options_.replay.limit = 5;
    EXPECT_TRUE(play().empty());
}

TEST_F(ClosesTest, AreDueWithTheQueryBeforeThemAtARate) {
    write({ask(1, 1000), ask(2, 1000), end(1, 1000), end(2, 1000), ask_udp(1)});
    options_.replay.rate = 1e8;
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@10", "c1@10", "c2@10", "q2@20"));
}

TEST_F(ClosesTest, AreScaledWithTheSpeed) {
    write({ask(1, 1000), ask(2, 1000), end(1, 1000), ask_udp(1)});
    options_.replay.speed = 0.5;
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@2", "c1@4", "q2@6"));
}

TEST_F(ClosesTest, KeepTheirPlaceWithoutTimes) {
    write({ask(1, 1000), ask(2, 1000), end(1, 1000), ask_udp(1)});
    options_.replay.fast = true;
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@0", "c1@0", "q2@0"));
}

TEST_F(ClosesTest, TravelByTheTransportThatIsPlayed) {
    write({ask(1, 1000), end(1, 1000), ask_udp(2)});
    options_.replay.transport = "tls";
    EXPECT_THAT(play(), ElementsAre("q0@0", "c1@1", "q1@2"));
    for (const Query& query : played_) {
        EXPECT_EQ(query.transport, Transport::kTls);
    }
    EXPECT_EQ(played_[0].connection, 1U);
    EXPECT_EQ(played_[2].connection, 0U) << "it had none in the trace";
}

TEST_F(ClosesTest, OfAConnectionThatARuleHasSplitAreTwo) {
    const auto size = static_cast<unsigned>(prefixed(dns(0)).size());
    write({ask(1, 1000), ipv4(1, tcp(1000, 1 + size, 0x10, prefixed(dns(0x0100))), kTcp),
           ipv4(1, tcp(1000, 1 + 2 * size, 0x11), kTcp), ask_udp(2)});
    options_.rules.rules.push_back(rules::parse_rule_option("transport", "tls,where.flags=rd"));
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@1", "c1@2", "c1@2", "q2@3"));
    EXPECT_EQ(played_[2].transport, Transport::kTcp);
    EXPECT_EQ(played_[3].transport, Transport::kTls);
    options_.replay.transport = "tcp";
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@1", "c1@2", "q2@3"));
}

TEST_F(ClosesTest, AreNoneOverUdpOrWhereTheServerCloses) {
    write({ask(1, 1000), end(1, 1000), ask_udp(2)});
    options_.replay.transport = "udp";
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@2"));
    EXPECT_EQ(played_[0].transport, Transport::kUdp);
    options_.replay.transport = "trace";
    options_.replay.closer = "server";
    EXPECT_THAT(play(), ElementsAre("q0@0", "q1@2"));
    EXPECT_EQ(played_[0].transport, Transport::kTcp);
}

TEST_F(ClosesTest, RetransmitsAreJudgedByTheTracesTransport) {
    write({ask_udp(1), ask_udp(1), ask(2, 1000), ask(2, 1001)});
    options_.replay.collapse_retransmits = true;
    options_.replay.transport = "tcp";
    EXPECT_THAT(play(), ElementsAre("q0@0", "q2@2", "q3@3"));
    options_.replay.transport = "udp";
    EXPECT_THAT(play(), ElementsAre("q0@0", "q2@2", "q3@3"));
}

TEST(PlayedConnections, AreForgottenOnce) {
    PlayedConnections played;
    EXPECT_FALSE(played.remove(7, Transport::kTcp));
    played.add(7, Transport::kTcp);
    played.add(1'000'000, Transport::kTcp);
    EXPECT_FALSE(played.remove(8, Transport::kTcp));
    EXPECT_TRUE(played.remove(7, Transport::kTcp));
    EXPECT_FALSE(played.remove(7, Transport::kTcp));
    played.clear();
    EXPECT_FALSE(played.remove(1'000'000, Transport::kTcp));
}

TEST(PlayedConnections, OverTlsAreOthers) {
    PlayedConnections played;
    played.add(31, Transport::kTcp);
    played.add(31, Transport::kTls);
    EXPECT_FALSE(played.remove(30, Transport::kTls));
    EXPECT_TRUE(played.remove(31, Transport::kTls));
    EXPECT_FALSE(played.remove(31, Transport::kTls));
    EXPECT_TRUE(played.remove(31, Transport::kTcp));
}

/// A text or stream file may number its connections up to 2^48 - 1: memory must follow how many
/// there are.
TEST(PlayedConnections, MemoryFollowsTheirCountNotTheirNumbers) {
    constexpr std::uint64_t kLast = (std::uint64_t{1} << 48U) - 1;
    PlayedConnections played;
    for (const std::uint64_t number : {std::uint64_t{1}, kLast, kLast - 1, ~std::uint64_t{0}}) {
        played.add(number, Transport::kTcp);
    }
    EXPECT_EQ(played.entries(), 3U) << "two are neighbors";
    EXPECT_FALSE(played.remove(2, Transport::kTcp));
    EXPECT_FALSE(played.remove(kLast - 2, Transport::kTcp));
    for (const std::uint64_t number : {kLast, std::uint64_t{1}, kLast - 1, ~std::uint64_t{0}}) {
        EXPECT_TRUE(played.remove(number, Transport::kTcp)) << number;
        EXPECT_FALSE(played.remove(number, Transport::kTcp)) << number;
    }
    EXPECT_EQ(played.entries(), 0U);
}

} // namespace
} // namespace reprise::controller
