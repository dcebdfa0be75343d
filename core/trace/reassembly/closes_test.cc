// Which end of a TCP connection closed first, and when that is told.
#include "core/base/clock.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/testing/feeder.hh"
#include "core/trace/testing/packets.hh"
#include "core/trace/testing/tcp.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const ReaderOptions kCloses{.closes = true};
constexpr std::uint32_t kFirst = 101;         ///< of the client's bytes
const std::uint32_t kBehind = kFirst + kSize; ///< of the first query

/// A connection with one query and its answer.
class Closes : public ::testing::Test {
protected:
    Closes() {
        open(feeder_);
        feeder_.feed(client(kFirst, message(1)));
        feeder_.feed(server(501, message(1, true), "A", kBehind));
    }

    Feeder feeder_{kCloses};
};

TEST_F(Closes, ByTheClientsFin) {
    EXPECT_THAT(feeder_.feed_at(client(kBehind, {}, "AF"), 9 * kSecond), ElementsAre(kClose));
    const Seen& seen = feeder_.seen().back();
    EXPECT_EQ(seen.time, 9 * kSecond);
    EXPECT_EQ(seen.connection, 1U);
    EXPECT_EQ(seen.source, "192.0.2.1:40000");
    EXPECT_EQ(seen.destination, "198.51.100.1:53");
    EXPECT_EQ(seen.size, 0U);
    EXPECT_FALSE(seen.response);
}

TEST_F(Closes, ByTheClientsReset) {
    EXPECT_THAT(feeder_.feed(client(kBehind, {}, "R")), ElementsAre(kClose));
}

TEST_F(Closes, AreToldOnce) {
    feeder_.feed(client(kBehind, {}, "AF"));
    EXPECT_THAT(feeder_.feed(client(kBehind, {}, "AF")), IsEmpty()) << "a repeated FIN";
    EXPECT_THAT(feeder_.feed(server(501 + kSize, {}, "AF", kBehind + 1)), IsEmpty());
    EXPECT_THAT(feeder_.feed(client(kBehind + 1, {}, "R")), IsEmpty()) << "a reset behind it";
    EXPECT_THAT(feeder_.finish(), IsEmpty());
}

TEST_F(Closes, ByTheServerAreNotTold) {
    EXPECT_THAT(feeder_.feed(server(501 + kSize, {}, "AF", kBehind)), IsEmpty());
    EXPECT_THAT(feeder_.feed(client(kBehind, {}, "AF")), IsEmpty());
    EXPECT_THAT(feeder_.feed(client(kBehind + 1, {}, "R")), IsEmpty());
}

TEST_F(Closes, ByTheServersResetAreNotTold) {
    EXPECT_THAT(feeder_.feed(server(501 + kSize, {}, "R")), IsEmpty());
    EXPECT_THAT(feeder_.feed(client(kBehind, {}, "AF")), IsEmpty());
}

TEST_F(Closes, BehindTheQueriesOfTheSamePacket) {
    EXPECT_THAT(feeder_.feed(client(kBehind, message(2) + message(3), "AF")),
                ElementsAre(2, 3, kClose));
}

TEST_F(Closes, WaitForTheBytesBeforeThem) {
    EXPECT_THAT(feeder_.feed(client(kBehind + kSize, {}, "AF")), IsEmpty());
    EXPECT_THAT(feeder_.feed(client(kBehind, part(message(2), 0, 9))), IsEmpty());
    EXPECT_THAT(feeder_.feed(client(kBehind + 9, part(message(2), 9))), ElementsAre(2, kClose));
    EXPECT_EQ(feeder_.seen().back().time, feeder_.now()) << "not before the query";
}

TEST_F(Closes, ComeFirstWhereTheServersFollowsBeforeTheHoleIsFilled) {
    EXPECT_THAT(feeder_.feed(client(kBehind + kSize, {}, "AF")), IsEmpty());
    EXPECT_THAT(feeder_.feed(server(501 + kSize, {}, "AF", kBehind)), IsEmpty());
    EXPECT_THAT(feeder_.feed(client(kBehind, message(2))), ElementsAre(2, kClose));
}

TEST_F(Closes, DoNotWaitForWhatTheCaptureLost) {
    feeder_.feed_at(client(kBehind + kSize, {}, "AF"), 7 * kSecond);
    EXPECT_THAT(feeder_.feed(server(501 + kSize, {}, "A", kBehind + kSize + 1)),
                ElementsAre(kClose));
    EXPECT_EQ(feeder_.seen().back().time, 7 * kSecond);
}

TEST_F(Closes, BehindAHoleThatIsGivenUp) {
    feeder_.feed(client(kBehind + kSize, message(3), "AF"));
    EXPECT_THAT(feeder_.feed(server(501 + kSize, {}, "A", kBehind + 2 * kSize + 1)),
                ElementsAre(3, kClose));
}

TEST_F(Closes, AResetEndsTheWaiting) {
    feeder_.feed(client(kBehind + kSize, {}, "AF"));
    EXPECT_THAT(feeder_.feed(client(kBehind + kSize + 1, {}, "R")), ElementsAre(kClose));
}

TEST_F(Closes, FromAnEarlierUseOfThePortsAreNone) {
    EXPECT_THAT(feeder_.feed(client(0x80000000U, {}, "R")), IsEmpty());
    EXPECT_THAT(feeder_.feed(server(0x80000000U, {}, "R")), IsEmpty());
    EXPECT_THAT(feeder_.feed(client(kBehind, {}, "AF")), ElementsAre(kClose));
}

TEST_F(Closes, EachConnectionHasItsOwn) {
    feeder_.feed(client(kBehind, {}, "AF"));
    feeder_.feed(client(70'000, {}, "S"));
    EXPECT_THAT(feeder_.feed(client(70'001, message(2), "AF")), ElementsAre(2, kClose));
    EXPECT_EQ(feeder_.seen().back().connection, 2U);
}

TEST_F(Closes, OfForgottenConnectionsAreNone) {
    feeder_.feed(client(kBehind + kSize, {}, "AF")); // waits for a query that never comes
    EXPECT_THAT(feeder_.feed(client(70'000, {}, "S")), IsEmpty());
    feeder_.feed(client(70'001, message(2)));
    EXPECT_THAT(feeder_.finish(), IsEmpty());
}

TEST(CloseOf, AConnectionWithoutItsBeginning) {
    Feeder feeder(kCloses);
    feeder.feed(client(7'000, message(1)));
    EXPECT_THAT(feeder.feed(client(7'000 + kSize, {}, "AF")), ElementsAre(kClose));
}

TEST(CloseOf, AConnectionWithoutAQueryIsNone) {
    Feeder feeder(kCloses);
    open(feeder);
    EXPECT_THAT(feeder.feed(client(kFirst, {}, "AF")), IsEmpty());
    Feeder answers(kCloses); // only the server's side was captured
    answers.feed(server(501, message(1, true)));
    EXPECT_THAT(answers.feed(server(501 + kSize, {}, "AF")), IsEmpty());
}

TEST(CloseOf, AFinThatOvertakesTheOnlyQuery) {
    Feeder feeder(kCloses);
    open(feeder);
    EXPECT_THAT(feeder.feed(client(kBehind, {}, "AF")), IsEmpty());
    EXPECT_THAT(feeder.feed(client(kFirst, message(1))), ElementsAre(1, kClose));
}

TEST(CloseOf, TheEndThatAskedWhateverItsPort) {
    Feeder feeder(kCloses);
    feeder.feed(server(501, message(1)));
    EXPECT_THAT(feeder.feed(server(501 + kSize, {}, "AF")), ElementsAre(kClose));
    EXPECT_EQ(feeder.seen().back().source, "198.51.100.1:53");
}

TEST(CloseOf, TheEndWithoutADnsPortWhereBothAsked) {
    for (const bool by_client : {true, false}) {
        Feeder feeder(kCloses);
        feeder.feed(client(kFirst, message(1)));
        feeder.feed(server(501, message(1)));
        const Buffer fin =
            by_client ? client(kBehind, {}, "AF") : server(501 + kSize, {}, "AF", kBehind);
        EXPECT_EQ(feeder.feed(fin).size(), by_client ? 1U : 0U);
    }
}

TEST(CloseOf, TheSynsDataAndFinInOneSegment) {
    Feeder feeder(kCloses);
    EXPECT_THAT(feeder.feed(client(100, message(1), "SF")), ElementsAre(1, kClose));
}

TEST(CloseOf, ASequenceNumberThatWraps) {
    Feeder feeder(kCloses);
    const std::uint32_t isn = 0U - kSize / 2;
    feeder.feed(client(isn, {}, "S"));
    EXPECT_THAT(feeder.feed(client(isn + 1 + kSize, {}, "AF")), IsEmpty());
    EXPECT_THAT(feeder.feed(client(isn + 1, message(1))), ElementsAre(1, kClose));
}

TEST(CloseOf, NothingIsToldToReadersThatDoNotAsk) {
    Feeder feeder;
    open(feeder);
    feeder.feed(client(kFirst, message(1)));
    EXPECT_THAT(feeder.feed(client(kBehind, {}, "AF")), IsEmpty());
}

} // namespace
} // namespace reprise::trace
