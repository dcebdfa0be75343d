#include "core/base/clock.hh"
#include "querier/carrier/carrier.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/testing/messages.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace reprise::querier {
namespace {

using testing::broken_replies;
using testing::make_message;
using testing::make_query;
using testing::make_reply;
using Kind = Matcher::Kind;

class MatcherTest : public ::testing::Test {
protected:
    /// Sends a query from `owner`; its index.
    std::uint32_t send(Owner owner, const std::vector<std::uint8_t>& message) {
        const std::uint32_t pending = queries_.take(make_query(sequence_++, 0, message));
        queries_[pending].owner = owner;
        matcher_.add(pending);
        return pending;
    }

    /// A reply arrives; an answered query ends.
    Matcher::Match reply(Owner owner, const std::vector<std::uint8_t>& message,
                         Nanoseconds now = 0) {
        const Matcher::Match match = matcher_.match(owner, message, message.size(), now);
        if (match.kind == Kind::kAnswer) {
            matcher_.end(match.pending, true, now);
        }
        return match;
    }

    PendingQueries queries_{1000};
    Matcher matcher_{queries_, 1000, kSecond};
    std::uint64_t sequence_ = 0;
};

TEST_F(MatcherTest, NeedsOwnerIdAndQuestion) {
    const auto query = make_message(5, "a.example.");
    const std::uint32_t pending = send(1, query);
    EXPECT_EQ(reply(2, make_reply(query)).kind, Kind::kUnmatched);
    EXPECT_EQ(reply(1, make_reply(make_message(6, "a.example."))).kind, Kind::kUnmatched);
    EXPECT_EQ(reply(1, make_reply(make_message(5, "b.example."))).kind, Kind::kUnmatched);
    EXPECT_EQ(reply(1, make_reply(make_message(5, "a.example.", 28))).kind, Kind::kUnmatched);
    const auto match = reply(1, make_reply(query));
    EXPECT_EQ(match.kind, Kind::kAnswer);
    EXPECT_EQ(match.pending, pending);
}

TEST_F(MatcherTest, NamesHaveNoCase) {
    send(1, make_message(5, "WwW.ExAmPlE."));
    EXPECT_EQ(reply(1, make_reply(make_message(5, "www.example."))).kind, Kind::kAnswer);
}

TEST_F(MatcherTest, QueriesAndFragmentsAnswerNothing) {
    const auto query = make_message(5, "a.example.");
    send(1, query);
    EXPECT_EQ(reply(1, query).kind, Kind::kUnmatched);
    EXPECT_EQ(reply(1, {0, 5, 0x80}).kind, Kind::kMalformed);
    EXPECT_EQ(reply(1, {}).kind, Kind::kMalformed);
    EXPECT_EQ(reply(0, {}).kind, Kind::kUnmatched) << "a stranger's words are not looked at";
}

/// Each has the right id; the query stays open for its answer.
TEST_F(MatcherTest, AMalformedReplyAnswersNothing) {
    const auto query = make_message(5, "a.example.");
    const std::uint32_t pending = send(1, query);
    for (const auto& bad : broken_replies(query)) {
        EXPECT_EQ(reply(1, bad).kind, Kind::kMalformed) << bad.size();
    }
    EXPECT_EQ(reply(1, make_reply(query)).pending, pending);
}

TEST_F(MatcherTest, OnlyTheBeginningOfAReplyNeedsToBeThere) {
    const auto query = make_message(5, "a.example.");
    const std::uint32_t pending = send(1, query);
    auto cut = make_reply(query);
    cut[7] = 200; // answers, none of them among the bytes
    EXPECT_EQ(matcher_.match(1, cut, cut.size(), 0).kind, Kind::kMalformed);
    EXPECT_EQ(matcher_.match(1, cut, 1200, 0).pending, pending);
}

TEST_F(MatcherTest, ATruncatedReplyMayEndAnywhereBehindItsQuestion) {
    const auto query = make_message(5, "a.example.");
    const std::uint32_t pending = send(1, query);
    auto cut = make_reply(query);
    cut[2] |= 2U;
    cut[7] = 3;
    cut.push_back(0xc0);
    EXPECT_EQ(reply(1, cut).pending, pending);
}

/// What the server could not read it may send back as it was.
TEST_F(MatcherTest, AFormErrMayRepeatABrokenQuery) {
    auto query = make_message(5, "a.example.");
    query[11] = 1; // an additional record that is not there
    const std::uint32_t pending = send(1, query);
    EXPECT_EQ(reply(1, make_reply(query)).kind, Kind::kMalformed);
    EXPECT_EQ(reply(1, make_reply(query, 1)).pending, pending);
}

TEST_F(MatcherTest, AReplyWithoutQuestionMustTellOfAnError) {
    const std::uint32_t pending = send(1, make_message(5, "a.example."));
    EXPECT_EQ(reply(1, {0, 5, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0}).kind, Kind::kUnmatched);
    EXPECT_EQ(reply(1, {0, 5, 0x80, 5, 0, 0, 0, 0, 0, 0, 0, 0}).pending, pending);
    const std::uint32_t update = send(1, make_message(6, "a.example."));
    EXPECT_EQ(reply(1, {0, 6, 0xa8, 0, 0, 0, 0, 0, 0, 0, 0, 0}).pending, update);
    const std::uint32_t bare = send(1, {0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}); // RFC 7873, 5.4
    EXPECT_EQ(reply(1, {0, 7, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0}).pending, bare);
}

TEST_F(MatcherTest, FurtherMessagesOfATransferNeedNoQuestion) {
    const std::vector<std::uint8_t> further{0, 5, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
                                            1, 0, 1,    0, 0, 0, 0, 0, 4, 1, 1, 1, 1};
    for (const std::uint16_t type : {std::uint16_t{251}, std::uint16_t{252}, std::uint16_t{1}}) {
        const Owner owner = owner_of(type, kOwnerConnection);
        const auto query = make_message(5, "a.example.", type);
        const std::uint32_t pending = send(owner, query);
        EXPECT_EQ(reply(owner, further).kind, Kind::kUnmatched) << "before the first";
        EXPECT_EQ(reply(owner, make_reply(query)).pending, pending);
        for (int n = 0; n < 2; ++n) {
            EXPECT_EQ(reply(owner, further).kind, type == 1 ? Kind::kUnmatched : Kind::kDuplicate);
        }
    }
}

TEST_F(MatcherTest, EqualKeysAreAnsweredInOrder) {
    const auto query = make_message(5, "a.example.");
    const std::uint32_t first = send(1, query);
    const std::uint32_t second = send(1, query);
    EXPECT_EQ(reply(1, make_reply(query)).pending, first);
    EXPECT_EQ(reply(1, make_reply(query)).pending, second);
    EXPECT_EQ(reply(1, make_reply(query)).kind, Kind::kDuplicate);
}

TEST_F(MatcherTest, AReplyWithoutQuestionAnswersTheOldestOfItsId) {
    const std::uint32_t first = send(1, make_message(5, "a.example."));
    const std::uint32_t second = send(1, make_message(5, "b.example."));
    const std::vector<std::uint8_t> header{0, 5, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(reply(1, header).pending, first);
    EXPECT_EQ(reply(1, header).pending, second);
    EXPECT_EQ(reply(1, header).kind, Kind::kDuplicate);
}

TEST_F(MatcherTest, AMalformedQueryIsAnsweredById) {
    const std::vector<std::uint8_t> broken{0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 63, 'x'};
    const std::uint32_t pending = send(1, broken);
    EXPECT_EQ(reply(1, make_reply(make_message(9, "x."))).pending, pending);
}

TEST_F(MatcherTest, TellsLateDuplicateAndUnmatchedApart) {
    const auto query = make_message(5, "a.example.");
    matcher_.end(send(1, query), false, 0);
    EXPECT_EQ(reply(1, make_reply(query), kMillisecond).kind, Kind::kLate);
    EXPECT_EQ(reply(1, make_reply(query), kMillisecond).kind, Kind::kDuplicate);
    EXPECT_EQ(reply(1, make_reply(query), 2 * kSecond).kind, Kind::kUnmatched);
}

TEST_F(MatcherTest, ANewQueryComesBeforeAnOldGhost) {
    const auto query = make_message(5, "a.example.");
    matcher_.end(send(1, query), false, 0);
    const std::uint32_t again = send(1, query);
    EXPECT_EQ(reply(1, make_reply(query)).pending, again);
    EXPECT_EQ(reply(1, make_reply(query)).kind, Kind::kLate);
}

TEST_F(MatcherTest, KnowsIdsInUse) {
    EXPECT_FALSE(matcher_.id_in_use(1, 5));
    const std::uint32_t pending = send(1, make_message(5, "a.example."));
    EXPECT_TRUE(matcher_.id_in_use(1, 5));
    EXPECT_FALSE(matcher_.id_in_use(2, 5));
    matcher_.remove(pending);
    EXPECT_FALSE(matcher_.id_in_use(1, 5));
}

TEST(Matcher, KeepsOrderAndEveryKeyWhileItGrows) {
    constexpr std::uint32_t kQueries = 40'000;
    constexpr std::uint32_t kKeys = kQueries / 4; // each is in flight four times
    PendingQueries queries(kQueries);
    Matcher matcher(queries, kQueries, kSecond);
    const auto message_of = [](std::uint32_t key) {
        return make_message(static_cast<std::uint16_t>(key), key % 2 == 0 ? "a." : "b.");
    };
    for (std::uint32_t n = 0; n < kQueries; ++n) {
        const auto message = message_of(n % kKeys);
        const std::uint32_t pending = queries.take(make_query(n, 0, message));
        queries[pending].owner = n % kKeys / 7 + 1;
        matcher.add(pending);
    }
    for (std::uint32_t n = 0; n < kQueries; ++n) {
        const auto reply = make_reply(message_of(n % kKeys));
        const auto match = matcher.match(n % kKeys / 7 + 1, reply, reply.size(), 0);
        ASSERT_EQ(match.kind, Kind::kAnswer) << n;
        ASSERT_EQ(queries[match.pending].record.sequence, n);
        matcher.end(match.pending, true, 0);
        queries.give_back(match.pending);
    }
    const auto again = make_reply(message_of(0));
    EXPECT_EQ(matcher.match(1, again, again.size(), 0).kind, Kind::kDuplicate);
    EXPECT_FALSE(matcher.id_in_use(1, 0));
}

TEST(EndedQueries, ForgetsTheOldestOfAFullSetOnly) {
    EndedQueries ended(kSecond, 3); // one set of eight
    for (std::uint64_t key = 1; key <= 9; ++key) {
        ended.add(key, true, static_cast<Nanoseconds>(key) * kMillisecond);
    }
    EXPECT_EQ(ended.take(1, 10 * kMillisecond), ReplyKind::kUnmatched);
    for (std::uint64_t key = 2; key <= 9; ++key) {
        EXPECT_EQ(ended.take(key, 10 * kMillisecond), ReplyKind::kDuplicate);
    }
}

TEST(EndedQueries, CountsTimedOutQueriesOfOneKey) {
    EndedQueries ended(kSecond);
    ended.add(77, false, 0);
    ended.add(77, false, 0);
    EXPECT_EQ(ended.take(77, 1), ReplyKind::kLate);
    EXPECT_EQ(ended.take(77, 1), ReplyKind::kLate);
    EXPECT_EQ(ended.take(77, 1), ReplyKind::kDuplicate);
}

TEST(EndedQueries, SurvivesTheWrapOfItsMilliseconds) {
    EndedQueries ended(kSecond);
    const Nanoseconds wrap = (Nanoseconds{1} << 32U) * kMillisecond;
    ended.add(5, true, wrap - kMillisecond);
    EXPECT_EQ(ended.take(5, wrap + kMillisecond), ReplyKind::kDuplicate);
    EXPECT_EQ(ended.take(5, wrap + 2 * kSecond), ReplyKind::kUnmatched);
}

} // namespace
} // namespace reprise::querier
