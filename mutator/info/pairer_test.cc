#include "core/base/clock.hh"
#include "core/wire/query.hh"
#include "mutator/info/pairer.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace reprise::mutator {
namespace {

using ::testing::ElementsAre;

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

    PairerOptions options_;
    std::vector<Exchange> out_;
    Pairer pairer_{options_, [this](const Exchange& exchange) { out_.push_back(exchange); }};
};

TEST_F(PairerTest, OneQueryOneReply) {
    add(100, query_bytes(1, "example"));
    add(150, reply_bytes(1, "EXAMPLE"));
    EXPECT_THAT(replies(), ElementsAre(150));
    EXPECT_EQ(out_[0].query, query_bytes(1, "example"));
    EXPECT_EQ(out_[0].reply, reply_bytes(1, "EXAMPLE"));
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
    EXPECT_EQ(out_[1].transport, Transport::kTcp);
}

TEST(Pairer, MemoryIsBounded) {
    std::vector<Exchange> out;
    Pairer pairer({.memory = 200}, [&](const Exchange& e) { out.push_back(e); });
    const auto query = query_bytes(1, "abcdefgh"); // 26 bytes
    for (int i = 0; i < 20; ++i) {
        pairer.add(message_of(i, query));
    }
    EXPECT_EQ(out.size(), 12U);
    EXPECT_EQ(pairer.counts().closed_early, 12U);
    pairer.finish();
    EXPECT_EQ(pairer.counts().unanswered, 20U);
}

} // namespace
} // namespace reprise::mutator
