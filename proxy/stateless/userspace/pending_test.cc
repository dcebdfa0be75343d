#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "proxy/stateless/userspace/responder.hh"
#include "proxy/stateless/userspace/segment.hh"
#include "proxy/testing/packets.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

namespace reprise::proxy::stateless {
namespace {

using proxy::testing::address;

Connection connection(std::uint16_t port, std::string_view client = "192.0.2.1") {
    return {.client = {.address = address(client), .port = port},
            .server = {.address =
                           address(client.find(':') != client.npos ? "2001:db8::53" : "192.0.2.53"),
                       .port = 53}};
}

Pending entry(std::uint16_t port, Nanoseconds deadline = kSecond) {
    return {.connection = connection(port), .deadline = deadline};
}

TEST(ForwardedQueries, AreFoundByConnectionAndKey) {
    Random random(1);
    ForwardedQueries pending(10, random);
    const QueryKey key = pending.add(entry(1)).key;
    pending.add(entry(2));
    ASSERT_NE(pending.find(connection(1)), nullptr);
    EXPECT_EQ(pending.find(connection(1)), pending.find(key));
    EXPECT_EQ(pending.find(connection(3)), nullptr);
    pending.remove(connection(1));
    pending.remove(connection(1));
    EXPECT_EQ(pending.find(key), nullptr);
    EXPECT_EQ(pending.size(), 1U);
    EXPECT_EQ(pending.peak(), 2U);
}

TEST(ForwardedQueries, ExpireInTheirOrder) {
    Random random(1);
    ForwardedQueries pending(10, random);
    EXPECT_EQ(pending.next_due(), std::nullopt);
    pending.add(entry(1, 10));
    pending.add(entry(2, 20));
    pending.add(entry(3, 30));
    pending.remove(connection(1));
    EXPECT_EQ(pending.next_due(), 20);
    EXPECT_EQ(pending.expire(19), 0U);
    EXPECT_EQ(pending.expire(20), 1U);
    EXPECT_EQ(pending.expire(100), 1U);
    EXPECT_EQ(pending.size(), 0U);
}

TEST(ForwardedQueries, LiveUntilTheyGo) {
    Random random(1);
    ForwardedQueries pending(2, random);
    pending.expire(100);
    pending.add(entry(1));
    pending.expire(110);
    pending.add(entry(2));
    pending.expire(115);
    EXPECT_EQ(pending.lived(), 15 + 5);
    pending.remove(connection(1));
    pending.expire(200);
    EXPECT_EQ(pending.lived(), 15 + 90);
}

TEST(ForwardedQueries, TheOldestMakesRoom) {
    Random random(1);
    ForwardedQueries pending(2, random);
    for (std::uint16_t port = 1; port <= 3; ++port) {
        pending.add(entry(port));
    }
    EXPECT_EQ(pending.size(), 2U);
    EXPECT_EQ(pending.evictions(), 1U);
    EXPECT_EQ(pending.find(connection(1)), nullptr);
    EXPECT_NE(pending.find(connection(3)), nullptr);
}

TEST(ForwardedQueries, MoreThanOneSocketsIdsAreInFlight) {
    Random random(1);
    ForwardedQueries pending(100'000, random);
    std::set<unsigned> sockets;
    for (unsigned n = 0; n < 100'000; ++n) {
        Pending one = entry(static_cast<std::uint16_t>(n));
        one.connection.server.port = static_cast<std::uint16_t>(n >> 16U);
        sockets.insert(pending.add(one).key >> 16U);
    }
    EXPECT_EQ(pending.size(), 100'000U);
    EXPECT_EQ(sockets.size(), kSockets);
}

TEST(SequenceNumbers, RememberTheMss) {
    const SequenceNumbers numbers(4'711, 1'500);

    struct Case {
        std::string_view client;
        std::uint16_t mss, expected;
    };

    for (const Case& one : {Case{"192.0.2.1", 0, 536},
                            {"192.0.2.1", 100, 536},
                            {"192.0.2.1", 536, 536},
                            {"192.0.2.1", 1'219, 536},
                            {"192.0.2.1", 1'220, 1'220},
                            {"192.0.2.1", 1'400, 1'380},
                            {"192.0.2.1", 1'460, 1'460},
                            {"192.0.2.1", 8'960, 1'460},
                            {"2001:db8::1", 1'220, 1'220},
                            {"2001:db8::1", 1'440, 1'440}}) {
        for (std::uint16_t port = 1; port < 100; ++port) {
            const Connection from = connection(port, one.client);
            const std::uint32_t first = numbers.first(from, one.mss);
            EXPECT_EQ(numbers.mss(from, first + 1), one.expected);
            EXPECT_EQ(numbers.mss(from, first + 1'000'000'000), one.expected);
        }
    }
}

TEST(SequenceNumbers, AreTheInterfacesAtMost) {
    const SequenceNumbers narrow(4'711, 1'300);
    const Connection v4 = connection(1);
    const Connection v6 = connection(1, "2001:db8::1");
    EXPECT_EQ(narrow.own_mss(v4.client.address), 1'260);
    EXPECT_EQ(narrow.own_mss(v6.client.address), 1'240);
    EXPECT_EQ(narrow.mss(v4, narrow.first(v4, 1'460) + 1), 1'220);
    EXPECT_EQ(SequenceNumbers(1, 100).own_mss(v4.client.address), 536);
}

TEST(SequenceNumbers, DependOnTheConnectionAndTheSecret) {
    const SequenceNumbers numbers(4'711, 1'500);
    std::set<std::uint32_t> seen;
    for (std::uint16_t port = 1; port <= 100; ++port) {
        seen.insert(numbers.first(connection(port), 1'460));
        EXPECT_EQ(numbers.first(connection(port), 1'460), numbers.first(connection(port), 1'460));
    }
    seen.insert(SequenceNumbers(4'712, 1'500).first(connection(1), 1'460));
    EXPECT_EQ(seen.size(), 101U);
}

} // namespace
} // namespace reprise::proxy::stateless
