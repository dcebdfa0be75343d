#include "core/testing/support.hh"
#include "core/trace/pairs.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

/// A query for one letter's A record.
class RetransmitsTest : public ::testing::Test {
protected:
    Query query(Nanoseconds time, const char* source, std::uint8_t id, std::uint8_t letter) {
        const auto& bytes = stored_.emplace_back(std::vector<std::uint8_t>{
            0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, letter, 0, 0, 1, 0, 1});
        Query message;
        message.time = time;
        message.source = *Endpoint::parse(source);
        message.message = bytes;
        return message;
    }

    bool repeats(const Query& query) { return retransmits_.repeats(query); }

    std::deque<std::vector<std::uint8_t>> stored_;
    Retransmits retransmits_{5 * kSecond, 3};
};

TEST_F(RetransmitsTest, TheSameWithinTheTimeoutRepeats) {
    EXPECT_FALSE(repeats(query(0, "192.0.2.1:1000", 7, 'a')));
    EXPECT_TRUE(repeats(query(kSecond, "192.0.2.1:1000", 7, 'a')));
    EXPECT_TRUE(repeats(query(5 * kSecond - 1, "192.0.2.1:1000", 7, 'a')));
    // The one kept has timed out; the timeout is not drawn out by repeats.
    EXPECT_FALSE(repeats(query(5 * kSecond, "192.0.2.1:1000", 7, 'a')));
    EXPECT_TRUE(repeats(query(6 * kSecond, "192.0.2.1:1000", 7, 'a')));
}

TEST_F(RetransmitsTest, AnyDifferenceMakesAnotherQuery) {
    EXPECT_FALSE(repeats(query(0, "192.0.2.1:1000", 7, 'a')));
    EXPECT_FALSE(repeats(query(1, "192.0.2.2:1000", 7, 'a')));
    EXPECT_FALSE(repeats(query(2, "192.0.2.1:1001", 7, 'a')));
    EXPECT_FALSE(repeats(query(3, "192.0.2.1:1000", 8, 'a')));
    EXPECT_FALSE(repeats(query(4, "192.0.2.1:1000", 7, 'b')));
}

TEST_F(RetransmitsTest, TcpIsLeftAlone) {
    auto message = query(0, "192.0.2.1:1000", 7, 'a');
    message.transport = Transport::kTcp;
    EXPECT_FALSE(repeats(message));
    EXPECT_FALSE(repeats(message));
}

TEST_F(RetransmitsTest, MalformedQueriesAreLeftAlone) {
    auto message = query(0, "192.0.2.1:1000", 7, 'a');
    message.message = message.message.first(14);
    EXPECT_FALSE(repeats(message));
    EXPECT_FALSE(repeats(message));
}

TEST_F(RetransmitsTest, MemoryIsBounded) {
    for (std::uint8_t id = 0; id < 100; ++id) {
        EXPECT_FALSE(repeats(query(id, "192.0.2.1:1000", id, 'a')));
        EXPECT_LE(retransmits_.size(), 3U);
    }
    EXPECT_TRUE(repeats(query(100, "192.0.2.1:1000", 99, 'a')));
    EXPECT_FALSE(repeats(query(100, "192.0.2.1:1000", 0, 'a'))); // forgotten
}

TEST_F(RetransmitsTest, AClockThatIsSetBackKeepsNothingLonger) {
    retransmits_ = Retransmits(5 * kSecond);
    for (const Nanoseconds time : {7200, 7200, 3600, 3606, 3612}) {
        repeats(query(time * kSecond, "192.0.2.1:1000", static_cast<std::uint8_t>(stored_.size()),
                      'a'));
    }
    EXPECT_EQ(retransmits_.size(), 2U);
}

TEST(AskedBefore, TellsForEachResponseWhetherItWasAskedFor) {
    AskedBefore queries;
    const auto query = query_bytes(1, "a");
    const auto reply = reply_bytes(1, "A");
    const auto other = reply_bytes(2, "a");
    EXPECT_EQ(queries.response(message_of(0, reply)), Asked::kUnknown);
    queries.query(message_of(1, query));
    queries.query(message_of(2, query));
    EXPECT_EQ(queries.response(message_of(3, reply)), Asked::kYes);
    EXPECT_EQ(queries.response(message_of(45 * kSecond, reply)), Asked::kYes) << "again";
    EXPECT_EQ(queries.response(message_of(46 * kSecond, other)), Asked::kNo);
    EXPECT_EQ(queries.response(message_of(47 * kSecond, other, 41'000)), Asked::kNo)
        << "another port of a client that is known";
    EXPECT_EQ(queries.response(message_of(48 * kSecond, other, 41'000, 7)), Asked::kUnknown);
    EXPECT_EQ(queries.response(message_of(80 * kSecond, reply)), Asked::kUnknown) << "forgotten";
    EXPECT_EQ(queries.queries(), 2U);
    EXPECT_EQ(queries.answered(), 1U);
}

/// Feeds messages and keeps what comes out.
class PairerTest : public ::testing::Test {
protected:
    void add(Nanoseconds time, const std::vector<std::uint8_t>& bytes, std::uint16_t port = 40'000,
             std::uint64_t connection = 0) {
        pairer_.add(message_of(time, bytes, port, connection));
    }

    /// The time of each query's reply in order of sequence, -1 where unanswered.
    std::vector<Nanoseconds> replies() {
        pairer_.finish();
        std::vector<Nanoseconds> times;
        for (const Exchange& exchange : out_) {
            EXPECT_EQ(exchange.sequence, times.size());
            EXPECT_EQ(exchange.answered, !exchange.reply.empty());
            times.push_back(exchange.answered ? exchange.reply_time : -1);
        }
        return times;
    }

    std::vector<Exchange> out_;
    std::deque<std::vector<std::uint8_t>> bytes_; ///< of out_
    Pairer pairer_{{}, [this](const Exchange& exchange) {
                       Exchange& kept = out_.emplace_back(exchange);
                       for (Bytes* const part : {&kept.query, &kept.reply}) {
                           *part = bytes_.emplace_back(part->begin(), part->end());
                       }
                   }};
};

TEST_F(PairerTest, OneQueryOneReply) {
    add(100, query_bytes(1, "example"));
    add(150, reply_bytes(1, "EXAMPLE"));
    EXPECT_THAT(replies(), ElementsAre(150));
    EXPECT_THAT(out_[0].query, ElementsAreArray(query_bytes(1, "example")));
    EXPECT_THAT(out_[0].reply, ElementsAreArray(reply_bytes(1, "EXAMPLE")));
    EXPECT_EQ(pairer_.counts().matched, 1U);
}

TEST_F(PairerTest, RepliesOutOfOrderComeOutInOrderOfQueries) {
    add(1, query_bytes(1, "a"));
    add(2, query_bytes(2, "b"));
    add(3, query_bytes(3, "c"));
    add(4, reply_bytes(3, "c"));
    add(5, reply_bytes(1, "a"));
    EXPECT_THAT(replies(), ElementsAre(5, -1, 4));
    EXPECT_EQ(pairer_.counts().unanswered, 1U);
}

TEST_F(PairerTest, EqualKeysMatchInOrder) {
    add(1, query_bytes(1, "a"));
    add(2, query_bytes(1, "a"));
    add(3, reply_bytes(1, "a"));
    add(4, reply_bytes(1, "a"));
    add(5, reply_bytes(1, "a"));
    EXPECT_THAT(replies(), ElementsAre(3, 4));
    EXPECT_EQ(pairer_.counts().unmatched_responses, 1U);
}

TEST_F(PairerTest, SameIdTwiceWithDifferentQuestions) {
    add(1, query_bytes(1, "a"));
    add(2, query_bytes(1, "b"));
    add(3, reply_bytes(1, "b"));
    add(4, reply_bytes(1, "a"));
    EXPECT_THAT(replies(), ElementsAre(4, 3));
}

TEST_F(PairerTest, OtherQuestionOrPortIsNoReply) {
    add(1, query_bytes(1, "a"));
    add(2, reply_bytes(1, "b"));
    add(3, reply_bytes(1, "a"), 40'001);
    EXPECT_THAT(replies(), ElementsAre(-1));
    EXPECT_EQ(pairer_.counts().unmatched_responses, 2U);
}

TEST_F(PairerTest, ReplyWithoutQuestionGoesById) {
    add(1, query_bytes(1, "a"));
    add(2, query_bytes(2, "b"));
    std::vector<std::uint8_t> formerr(12);
    formerr[1] = 2;
    formerr[2] = 0x80;
    formerr[3] = 1;
    add(3, formerr);
    EXPECT_THAT(replies(), ElementsAre(-1, 3));
}

TEST_F(PairerTest, MalformedQueryGetsItsReplyLast) {
    std::vector<std::uint8_t> broken(12);
    broken[1] = 1;
    broken[5] = 1;
    add(1, broken);
    add(2, query_bytes(1, "a"));
    add(3, reply_bytes(1, "a"));
    add(4, reply_bytes(1, "a"));
    EXPECT_THAT(replies(), ElementsAre(4, 3)) << "the readable question goes first";
}

TEST_F(PairerTest, LateReplyIsUnmatched) {
    add(0, query_bytes(1, "a"));
    add(11 * kSecond, reply_bytes(1, "a"));
    EXPECT_THAT(replies(), ElementsAre(-1));
    EXPECT_EQ(pairer_.counts().unmatched_responses, 1U);
}

TEST_F(PairerTest, WindowClosesQueries) {
    add(0, query_bytes(1, "a"));
    add(11 * kSecond, query_bytes(2, "b"));
    EXPECT_EQ(out_.size(), 1U);
    add(11 * kSecond, reply_bytes(1, "a"));
    EXPECT_THAT(replies(), ElementsAre(-1, -1));
    EXPECT_EQ(pairer_.counts().unmatched_responses, 1U);
}

TEST_F(PairerTest, AClockThatIsSetBackCostsNoPair) {
    add(7200 * kSecond, query_bytes(1, "a"));
    add(3600 * kSecond, reply_bytes(1, "a"));
    add(3601 * kSecond, query_bytes(2, "b"));
    add(3602 * kSecond, query_bytes(3, "c"));
    add(3603 * kSecond, reply_bytes(2, "b"));
    add(3612 * kSecond, query_bytes(4, "d"));
    add(3613 * kSecond, reply_bytes(3, "c"));
    EXPECT_THAT(replies(), ElementsAre(7200 * kSecond, 7203 * kSecond, -1, -1));
    EXPECT_EQ(out_[1].query_time, 7201 * kSecond);
}

TEST_F(PairerTest, ReplyCapturedBeforeItsQuery) {
    add(1000, reply_bytes(1, "a"));
    add(1500, query_bytes(1, "a"));
    add(kSecond, reply_bytes(2, "b"));
    add(2 * kSecond, query_bytes(2, "b"));
    EXPECT_THAT(replies(), ElementsAre(1000, -1)) << "within the skew only";
    EXPECT_EQ(pairer_.counts().early_responses, 1U);
    EXPECT_EQ(pairer_.counts().unmatched_responses, 1U);
}

TEST_F(PairerTest, TcpIsPairedWithinItsConnection) {
    add(1, query_bytes(1, "a"), 40'000, 1);
    add(2, query_bytes(1, "a"), 40'000, 2);
    add(3, query_bytes(7, "b"), 40'000, 2);
    add(4, reply_bytes(7, "b"), 40'000, 2);
    add(5, reply_bytes(1, "a"), 40'000, 2);
    add(6, reply_bytes(1, "a"), 40'000, 0);
    EXPECT_THAT(replies(), ElementsAre(-1, 5, 4));
}

TEST_F(PairerTest, ManyOpenQueriesOfOneKeyStayInOrder) {
    for (std::uint16_t i = 0; i < 5000; ++i) {
        add(i, query_bytes(static_cast<std::uint16_t>(i % 7), i % 2 == 0 ? "a" : "b"));
    }
    add(5000, reply_bytes(3, "b"));
    add(5001, reply_bytes(3, "a"));
    add(5002, reply_bytes(3, "b"));
    const std::vector<Nanoseconds> times = replies();
    EXPECT_EQ(times[3], 5000);
    EXPECT_EQ(times[10], 5001);
    EXPECT_EQ(times[17], 5002);
    EXPECT_EQ(pairer_.counts().unanswered, 4997U);
}

TEST(Pairer, DisorderIsNoStepOfTheClockHoweverShortTheWindow) {
    Pairer pairer({.window = kMillisecond}, [](const Exchange& /*exchange*/) {});
    const auto first = query_bytes(1, "a");
    const auto late = query_bytes(2, "b");
    const auto reply = reply_bytes(1, "a");
    pairer.add(message_of(10 * kSecond, first));
    pairer.add(message_of(10 * kSecond - 2 * kMillisecond, late));
    pairer.add(message_of(10 * kSecond + 1, reply));
    EXPECT_EQ(pairer.counts().matched, 1U);
}

TEST(Pairer, MemoryIsBounded) {
    std::uint64_t out = 0;
    Pairer pairer({.memory = 200}, [&](const Exchange& /*exchange*/) { ++out; });
    const auto query = query_bytes(1, "abcdefgh"); // 26 bytes
    for (int i = 0; i < 20; ++i) {
        pairer.add(message_of(i, query));
    }
    EXPECT_EQ(out, 12U);
    EXPECT_EQ(pairer.counts().closed_early, 12U);
    pairer.finish();
    EXPECT_EQ(pairer.counts().unanswered, 20U);
}

} // namespace
} // namespace reprise::trace

// NOLINTEND(bugprone-unchecked-optional-access)
