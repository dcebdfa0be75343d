// What is pure about a TCP connection: its replies and its queue of queries.
#include "core/wire/result_file.hh"
#include "querier/connection/connection.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/testing/messages.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::querier {
namespace {

using Bytes8 = std::vector<std::uint8_t>;

Bytes8 framed(const std::vector<size_t>& sizes) {
    Bytes8 out;
    for (const size_t size : sizes) {
        out.push_back(static_cast<std::uint8_t>(size >> 8U));
        out.push_back(static_cast<std::uint8_t>(size));
        out.insert(out.end(), size, static_cast<std::uint8_t>(size));
    }
    return out;
}

/// Feeds `sent` in pieces of `piece` bytes; the sizes of the messages seen.
std::vector<size_t> cut(Bytes8 sent, size_t piece, bool& good) {
    ReplyReader replies;
    std::vector<size_t> sizes;
    good = true;
    for (size_t at = 0; at < sent.size() && good; at += piece) {
        const std::span<std::uint8_t> part(&sent[at], std::min(piece, sent.size() - at));
        good = replies.feed(part, [&](std::span<std::uint8_t> message) {
            EXPECT_TRUE(std::ranges::all_of(
                message, [&](auto b) { return b == static_cast<std::uint8_t>(message.size()); }));
            sizes.push_back(message.size());
        });
    }
    return sizes;
}

TEST(ReplyReader, CutsHoweverTheStreamIsSplit) {
    const auto expect = [](const std::vector<size_t>& sizes, size_t piece) {
        bool good = false;
        EXPECT_EQ(cut(framed(sizes), piece, good), sizes) << piece;
        EXPECT_TRUE(good);
    };
    for (const size_t piece : {1UL, 2UL, 3UL}) {
        expect({12, 500, 3000, 12, 13}, piece);
    }
    for (const size_t piece : {13UL, 511UL, 65536UL, 1000000UL}) {
        expect({12, 500, 65535, 12, 13}, piece);
    }
}

TEST(ReplyReader, ALengthBelowAHeaderIsTheEnd) {
    for (const size_t piece : {1UL, 100UL}) {
        bool good = true;
        EXPECT_EQ(cut(framed({20, 11, 20}), piece, good), (std::vector<size_t>{20}));
        EXPECT_FALSE(good);
    }
}

class QueueTest : public ::testing::Test {
protected:
    std::uint32_t add() {
        const std::uint32_t pending =
            queries_.take(testing::make_query(0, 0, testing::make_message(1, "a.")));
        queue_.enqueue(queries_, pending);
        return pending;
    }

    PendingQueries queries_{100};
    ConnectionQueue queue_;
};

TEST_F(QueueTest, WritesInOrder) {
    const std::uint32_t a = add();
    const std::uint32_t b = add();
    EXPECT_EQ(queue_.next(), a);
    queue_.started(queries_, a);
    EXPECT_EQ(queue_.next(), b);
    queue_.started(queries_, b);
    EXPECT_EQ(queue_.next(), kNone);
    EXPECT_FALSE(queue_.idle());
    queue_.remove(queries_, b);
    queue_.remove(queries_, a);
    EXPECT_TRUE(queue_.idle());
}

TEST_F(QueueTest, AQueryMayEndBeforeItIsWritten) {
    const std::uint32_t a = add();
    const std::uint32_t b = add();
    queue_.remove(queries_, a);
    EXPECT_EQ(queue_.next(), b);
}

TEST_F(QueueTest, ALostConnectionRetriesWrittenQueriesOnce) {
    const std::uint32_t written = add();
    const std::uint32_t waiting = add();
    queue_.started(queries_, written);
    ConnectionQueue::Loss loss = queue_.lose(queries_, true);
    EXPECT_EQ(loss.retry, (std::vector<std::uint32_t>{written, waiting}));
    EXPECT_TRUE(loss.failed.empty());
    EXPECT_EQ(queries_[written].record.retries, 1);
    EXPECT_EQ(queries_[written].record.marks, kMarkRetried);
    EXPECT_EQ(queries_[waiting].record.retries, 0);
    EXPECT_TRUE(queue_.idle());

    queue_.enqueue(queries_, written);
    queue_.enqueue(queries_, waiting);
    queue_.started(queries_, written);
    loss = queue_.lose(queries_, true);
    EXPECT_EQ(loss.failed, (std::vector<std::uint32_t>{written}));
    EXPECT_EQ(loss.retry, (std::vector<std::uint32_t>{waiting}));
}

TEST_F(QueueTest, AConnectionThatNeverWasFailsAll) {
    const std::uint32_t a = add();
    const std::uint32_t b = add();
    const ConnectionQueue::Loss loss = queue_.lose(queries_, false);
    EXPECT_EQ(loss.failed, (std::vector<std::uint32_t>{a, b}));
    EXPECT_TRUE(loss.retry.empty());
}

TEST_F(QueueTest, WhatNeverArrivedWaitsBeforeTheOthers) {
    const std::vector<std::uint32_t> all{add(), add(), add()};
    queue_.started(queries_, all[0]);
    queue_.started(queries_, all[1]);
    EXPECT_TRUE(queue_.flying());
    EXPECT_EQ(queue_.take_back(queries_), (std::vector<std::uint32_t>{all[0], all[1]}));
    EXPECT_FALSE(queue_.flying());
    for (const std::uint32_t pending : all) {
        EXPECT_EQ(queue_.next(), pending);
        queue_.started(queries_, pending);
    }
}

TEST_F(QueueTest, AServerThatEndsEveryConnectionAtOnceCostsOneRetry) {
    const std::uint32_t a = add();
    queue_.start_all(queries_);
    EXPECT_EQ(queue_.lose(queries_, true).retry, std::vector<std::uint32_t>{a});
    queue_.enqueue(queries_, a);
    queue_.start_all(queries_);
    EXPECT_EQ(queue_.lose(queries_, true).failed, std::vector<std::uint32_t>{a});
}

TEST_F(QueueTest, EarlyDataFailsWithAHandshake) {
    const std::uint32_t a = add();
    queue_.started(queries_, a);
    EXPECT_EQ(queue_.lose(queries_, false).failed, std::vector<std::uint32_t>{a});
}

} // namespace
} // namespace reprise::querier
