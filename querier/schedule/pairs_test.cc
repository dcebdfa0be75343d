// What ties queries together: hedged pairs, and a source's queries that wait for each other.
#include "core/wire/result_file.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/testing/messages.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

using testing::make_message;
using testing::make_query;

constexpr Nanoseconds kAfter = 100;
constexpr Nanoseconds kTimeout = 5000;

std::vector<Endpoint> peers(const std::vector<std::uint8_t>& families) {
    std::vector<Endpoint> made;
    made.reserve(families.size());
    for (const std::uint8_t family : families) {
        made.push_back({.address = {.bytes = {}, .family = family}, .port = 53});
    }
    return made;
}

class HedgesTest : public ::testing::Test {
protected:
    /// A query that was handed over at `time`, and sent where it is `written`.
    std::uint32_t sent(Nanoseconds time, std::uint8_t family = 4, bool written = true) {
        const std::uint32_t pending =
            queries_.take(make_query(sequence_++, 0, message_, 0, Transport::kUdp, family));
        queries_.keep(pending);
        queries_[pending].record.due = time - 1;
        queries_[pending].record.send = written ? time : 0;
        queries_[pending].written = written;
        queries_[pending].deadline = time + kTimeout;
        hedges_.watch(pending);
        return pending;
    }

    /// The copy of the query whose turn it is, sent at `time`.
    std::uint32_t split(Nanoseconds time) {
        const std::uint32_t copy = hedges_.split();
        queries_[copy].record.send = time;
        queries_[copy].written = true;
        return copy;
    }

    bool answer(std::uint32_t pending, Nanoseconds time) {
        queries_[pending].record.receive = time;
        return settle(pending, Status::kAnswered);
    }

    bool time_out(std::uint32_t pending) { return settle(pending, Status::kTimedOut); }

    bool settle(std::uint32_t pending, Status status) {
        std::optional<HedgeRow> row;
        const bool whole = hedges_.settle(pending, status, row).has_value();
        if (row) {
            rows_.push_back(*row);
        }
        ended_ = queries_[pending].record;
        queries_.give_back(pending);
        return whole;
    }

    std::vector<HedgeRow> rows() { return std::exchange(rows_, {}); }

    std::vector<std::uint8_t> message_ = make_message(7, "a.example.");
    PendingQueries queries_{6};
    Hedges hedges_{queries_, kTimeout, kAfter, peers({4, 6, 4})};
    std::uint64_t sequence_ = 0;
    RqRecord ended_; ///< of the query settled last
    std::vector<HedgeRow> rows_;
};

TEST_F(HedgesTest, KnowTheNextTime) {
    EXPECT_EQ(hedges_.next(), std::numeric_limits<Nanoseconds>::max());
    const std::uint32_t first = sent(1000);
    sent(1050);
    EXPECT_EQ(hedges_.next(), 1000 + kAfter);
    hedges_.unwatch(first);
    hedges_.unwatch(first);
    EXPECT_EQ(hedges_.next(), 1050 + kAfter);
    split(1150);
    EXPECT_EQ(hedges_.next(), std::numeric_limits<Nanoseconds>::max());
}

TEST_F(HedgesTest, ThePeersAnswerWinsAndTheServersIsRecorded) {
    const std::uint32_t original = sent(1000);
    const std::uint32_t copy = split(1100);
    EXPECT_TRUE(answer(copy, 1200));
    EXPECT_EQ(ended_.send, 1000);
    EXPECT_EQ(ended_.due, 999);
    EXPECT_EQ(ended_.latency, 200);
    EXPECT_EQ(ended_.marks, kMarkHedged | kMarkHedgeWon);
    EXPECT_TRUE(rows().empty());
    EXPECT_FALSE(answer(original, 1300));
    const std::vector<HedgeRow> all = rows();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].peer, 1);
    EXPECT_TRUE(all[0].won);
    EXPECT_EQ(all[0].sent, (std::array<Nanoseconds, 2>{1000, 1100}));
    EXPECT_EQ(all[0].received, (std::array<Nanoseconds, 2>{1300, 1200}));
    EXPECT_EQ(queries_.used(), 0U);
}

TEST_F(HedgesTest, TheServersAnswerMayStillWin) {
    const std::uint32_t original = sent(1000);
    const std::uint32_t copy = split(1100);
    EXPECT_TRUE(answer(original, 1150));
    EXPECT_EQ(ended_.latency, 150);
    EXPECT_EQ(ended_.marks, kMarkHedged);
    EXPECT_FALSE(time_out(copy));
    const std::vector<HedgeRow> all = rows();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_FALSE(all[0].won);
    EXPECT_EQ(all[0].received, (std::array<Nanoseconds, 2>{1150, 0}));
}

TEST_F(HedgesTest, AQueryThatWaitsForItsConnectionIsHedgedToo) {
    const std::uint32_t original = sent(1000, 4, false);
    EXPECT_EQ(hedges_.next(), 1000 + kAfter);
    const std::uint32_t copy = split(1100);
    EXPECT_TRUE(answer(copy, 1300));
    EXPECT_EQ(ended_.send, 1000);
    EXPECT_EQ(ended_.latency, 300);
    EXPECT_FALSE(time_out(original));
    EXPECT_EQ(rows().at(0).sent, (std::array<Nanoseconds, 2>{0, 1100}));
}

TEST_F(HedgesTest, BothSilentIsOneTimeout) {
    const std::uint32_t original = sent(1000);
    const std::uint32_t copy = split(1100);
    EXPECT_FALSE(time_out(original));
    EXPECT_TRUE(time_out(copy));
    EXPECT_EQ(ended_.send, 1000);
    EXPECT_EQ(ended_.latency, -1);
    EXPECT_EQ(ended_.marks, kMarkHedged);
    const std::vector<HedgeRow> all = rows();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].received, (std::array<Nanoseconds, 2>{0, 0}));
}

TEST_F(HedgesTest, AnAnswerAfterTheOthersTimeoutEndsTheQuery) {
    const std::uint32_t original = sent(1000);
    const std::uint32_t copy = split(1100);
    EXPECT_FALSE(time_out(original));
    EXPECT_TRUE(answer(copy, 1900));
    EXPECT_EQ(ended_.latency, 900);
    EXPECT_EQ(rows().size(), 1U);
}

TEST_F(HedgesTest, ACopyThatWasNotSentLeavesNoTrace) {
    const std::uint32_t original = sent(1000);
    const std::uint32_t copy = split(1100);
    hedges_.cancel(copy);
    EXPECT_TRUE(time_out(original));
    EXPECT_EQ(ended_.marks & kMarkHedged, 0);
    EXPECT_TRUE(rows().empty());
    EXPECT_EQ(queries_.used(), 0U);
}

TEST_F(HedgesTest, PairsAreUsedAgain) {
    for (int n = 0; n < 1000; ++n) {
        const std::uint32_t original = sent(1000);
        const std::uint32_t copy = split(1100);
        ASSERT_NE(copy, kNone);
        EXPECT_TRUE(answer(n % 2 == 0 ? original : copy, 1200));
        EXPECT_FALSE(time_out(n % 2 == 0 ? copy : original));
    }
    EXPECT_EQ(rows().size(), 1000U);
}

TEST_F(HedgesTest, PeersOfTheQuerysFamilyTakeTurns) {
    std::vector<std::uint8_t> peers;
    for (int n = 0; n < 3; ++n) {
        const std::uint32_t original = sent(1000);
        const std::uint32_t copy = split(1100);
        peers.push_back(queries_[copy].peer);
        time_out(original);
        time_out(copy);
    }
    EXPECT_EQ(peers, (std::vector<std::uint8_t>{1, 3, 1}));
    sent(1000, 6);
    EXPECT_EQ(queries_[split(1100)].peer, 2);
}

TEST_F(HedgesTest, WithoutAPeerOrAPlaceTheOriginalGoesOnAlone) {
    Hedges only_v6(queries_, kTimeout, kAfter, peers({6}));
    const std::uint32_t pending = sent(1000);
    hedges_.unwatch(pending);
    only_v6.watch(pending);
    EXPECT_EQ(only_v6.split(), kNone);
    EXPECT_EQ(only_v6.next(), std::numeric_limits<Nanoseconds>::max());
    EXPECT_EQ(queries_[pending].pair, kNone);
    hedges_.watch(pending);
    while (!queries_.full()) {
        queries_.take(make_query(99, 0, message_));
    }
    EXPECT_EQ(hedges_.split(), kNone);
    EXPECT_EQ(queries_[pending].pair, kNone);
    EXPECT_FALSE(queries_[pending].watched);
}

class DependentsTest : public ::testing::Test {
protected:
    std::uint32_t park(std::uint32_t source) {
        const std::uint32_t pending = queries_.take(make_query(0, 0, message_, source));
        dependents_.park(pending);
        return pending;
    }

    std::vector<std::uint8_t> message_ = make_message(7, "a.example.");
    PendingQueries queries_{100};
    Dependents dependents_{queries_};
};

TEST_F(DependentsTest, OneAfterTheOtherInOrder) {
    EXPECT_TRUE(dependents_.start(5));
    EXPECT_FALSE(dependents_.start(5));
    EXPECT_TRUE(dependents_.start(6));
    const std::uint32_t second = park(5);
    const std::uint32_t third = park(5);
    EXPECT_EQ(dependents_.end(5), second);
    EXPECT_FALSE(dependents_.start(5));
    const std::uint32_t fourth = park(5);
    EXPECT_EQ(dependents_.end(5), third);
    EXPECT_EQ(dependents_.end(5), fourth);
    EXPECT_FALSE(dependents_.start(5));
    EXPECT_EQ(dependents_.end(5), kNone);
    EXPECT_TRUE(dependents_.start(5));
}

TEST_F(DependentsTest, AnEndOfAnUnknownSourceIsNothing) {
    EXPECT_EQ(dependents_.end(1), kNone);
    EXPECT_TRUE(dependents_.start(1));
}

TEST_F(DependentsTest, AllThatWaitCanBeTaken) {
    for (std::uint32_t n = 0; n < 30; ++n) {
        if (!dependents_.start(n % 3)) {
            park(n % 3);
        }
    }
    std::vector<bool> seen(queries_.used());
    for (std::uint32_t pending = dependents_.take_any(); pending != kNone;
         pending = dependents_.take_any()) {
        EXPECT_FALSE(seen.at(pending));
        seen.at(pending) = true;
    }
    EXPECT_EQ(std::ranges::count(seen, true), 27);
    EXPECT_TRUE(dependents_.start(0));
}

} // namespace
} // namespace reprise::querier
