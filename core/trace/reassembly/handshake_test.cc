#include "core/base/clock.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/testing/feeder.hh"
#include "core/trace/testing/packets.hh"
#include "core/trace/testing/tcp.hh"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)

/// A feeder that keeps the handshakes told.
struct Watched {
    std::vector<TcpHandshake> seen;
    Feeder feeder{{.handshakes = [this](const TcpHandshake& times) { seen.push_back(times); }}};
};

constexpr Nanoseconds kOpened = 1'000 * kSecond;

TEST(Handshake, HasTheTimesOfItsThreePackets) {
    Watched watched;
    watched.feeder.feed_at(client(100, {}, "S"), kOpened);
    watched.feeder.feed_at(server(500, {}, "SA", 101), kOpened + 5);
    watched.feeder.feed_at(client(101, {}, "A", 501), kOpened + 40'000);
    watched.feeder.feed_at(client(101, message(1), "A", 501), kOpened + 50'000);
    ASSERT_EQ(watched.seen.size(), 1U);
    EXPECT_EQ(watched.seen[0].client.text(), "192.0.2.1:40000");
    EXPECT_EQ(watched.seen[0].server.text(), "198.51.100.1:53");
    EXPECT_EQ(watched.seen[0].syn, kOpened);
    EXPECT_EQ(watched.seen[0].syn_ack, kOpened + 5);
    EXPECT_EQ(watched.seen[0].ack, kOpened + 40'000);
}

TEST(Handshake, TheFirstDataMayBringTheAcknowledgement) {
    Watched watched;
    open(watched.feeder);
    watched.feeder.feed(client(101, message(1), "A", 501));
    EXPECT_EQ(watched.seen.size(), 1U);
}

TEST(Handshake, PacketsSentTwiceAreAmbiguous) {
    Watched watched;
    watched.feeder.feed(client(100, {}, "S"));
    watched.feeder.feed(client(100, {}, "S"));
    watched.feeder.feed(server(500, {}, "SA", 101));
    watched.feeder.feed(client(101, {}, "A", 501));
    EXPECT_TRUE(watched.seen.empty());
}

TEST(Handshake, OtherPacketsAreNone) {
    Watched watched;
    watched.feeder.feed(client(101, message(1), "A", 501)); // from the middle
    watched.feeder.feed(server(500, {}, "SA", 101));
    watched.feeder.feed(client(101, {}, "A", 501));
    EXPECT_TRUE(watched.seen.empty());
    Watched refused;
    refused.feeder.feed(client(100, {}, "S"));
    refused.feeder.feed(server(0, {}, "RA", 101));
    refused.feeder.feed(client(101, {}, "A", 501));
    EXPECT_TRUE(refused.seen.empty());
    Watched wrong;
    wrong.feeder.feed(client(100, {}, "S"));
    wrong.feeder.feed(server(500, {}, "SA", 999)); // acknowledges something else
    wrong.feeder.feed(client(101, {}, "A", 501));
    EXPECT_TRUE(wrong.seen.empty());
}

/// The ports are used again: a new connection with a handshake of its own.
TEST(Handshake, EveryConnectionHasItsOwn) {
    Watched watched;
    open(watched.feeder);
    watched.feeder.feed(client(101, {}, "A", 501));
    watched.feeder.feed(client(9'000, {}, "S"));
    watched.feeder.feed(server(70'000, {}, "SA", 9'001));
    watched.feeder.feed(client(9'001, {}, "A", 70'001));
    EXPECT_EQ(watched.seen.size(), 2U);
}

} // namespace
} // namespace reprise::trace
