#include "core/wire/record.hh"
#include "querier/schedule/backlog.hh"
#include "querier/testing/messages.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

using testing::make_message;
using testing::make_query;

/// A block of queries with these due offsets; their sequence numbers count on from `sequence`.
std::string block_of(const std::vector<Nanoseconds>& dues, std::uint64_t sequence = 0) {
    std::string records;
    for (const Nanoseconds due : dues) {
        const auto id = static_cast<std::uint16_t>(sequence);
        append_record(records, make_query(sequence++, due, make_message(id, "a.example.")));
    }
    return records;
}

Credit room(std::uint64_t records) { return {.records = records, .bytes = 1UL << 20U}; }

/// Takes the whole block in; what was wrong with it.
std::string take_in(Backlog& backlog, std::string block) {
    backlog.begin(std::move(block));
    std::string error;
    while (backlog.busy() && error.empty()) {
        error = backlog.step();
    }
    return error;
}

std::vector<std::uint64_t> drain(Backlog& backlog) {
    std::vector<std::uint64_t> sequences;
    for (; !backlog.empty(); backlog.pop()) {
        sequences.push_back(backlog.front().sequence);
    }
    return sequences;
}

TEST(Backlog, PutsStragglersOfLaterBlocksInTheirPlace) {
    Backlog backlog(room(100));
    EXPECT_EQ(take_in(backlog, block_of({10, 30, 50})), "");
    EXPECT_EQ(take_in(backlog, block_of({20, 40, 60}, 3)), "");
    EXPECT_EQ(take_in(backlog, block_of({5, 60, 50}, 6)), "");
    EXPECT_EQ(backlog.received(), 9U);
    EXPECT_EQ(backlog.due(), 5);
    EXPECT_EQ(drain(backlog), (std::vector<std::uint64_t>{6, 0, 3, 1, 4, 2, 8, 5, 7}));
    EXPECT_EQ(backlog.received(), 9U);
}

TEST(Backlog, TakesInAFewRecordsAtATime) {
    Backlog backlog(room(1000));
    backlog.begin(block_of(std::vector<Nanoseconds>(256, 1)));
    EXPECT_EQ(backlog.step(), "");
    EXPECT_TRUE(backlog.busy());
    EXPECT_FALSE(backlog.empty());
    EXPECT_LT(backlog.received(), 256U);
    while (backlog.busy()) {
        EXPECT_EQ(backlog.step(), "");
    }
    EXPECT_EQ(backlog.received(), 256U);
}

TEST(Backlog, BorrowedMessagesLiveUntilTheSweep) {
    Backlog backlog(room(1000));
    std::vector<Query> borrowed;
    for (std::uint64_t n = 0; n < 50; ++n) { // the list of blocks grows meanwhile
        EXPECT_EQ(take_in(backlog, block_of({1}, n)), "");
        borrowed.push_back(backlog.front());
        backlog.pop();
    }
    EXPECT_TRUE(backlog.empty());
    for (const Query& query : borrowed) {
        const auto expected =
            make_message(static_cast<std::uint16_t>(query.sequence), "a.example.");
        EXPECT_TRUE(std::ranges::equal(query.message, expected));
    }
    backlog.sweep();
    EXPECT_EQ(take_in(backlog, block_of({1, 2}, 7)), "");
    EXPECT_EQ(drain(backlog), (std::vector<std::uint64_t>{7, 8}));
}

TEST(Backlog, ABlockThatIsEmptiedWhileItIsTakenInStays) {
    Backlog backlog(room(1000));
    backlog.begin(block_of(std::vector<Nanoseconds>(100, 1)));
    std::uint64_t next = 0;
    while (backlog.busy()) {
        EXPECT_EQ(backlog.step(), "");
        for (const std::uint64_t sequence : drain(backlog)) {
            EXPECT_EQ(sequence, next++);
        }
        backlog.sweep();
    }
    EXPECT_EQ(next, 100U);
}

TEST(Backlog, ACorruptBlockIsNamedByItsOffsetAndItsGoodQueriesStay) {
    std::string block = block_of({1, 2});
    const size_t good = block.size();
    block += "broken";
    Backlog backlog(room(100));
    EXPECT_EQ(take_in(backlog, block),
              "corrupt block from the parent at offset " + std::to_string(good));
    EXPECT_FALSE(backlog.busy());
    EXPECT_EQ(drain(backlog), (std::vector<std::uint64_t>{0, 1}));
}

TEST(Backlog, ABlockOfNothingButNoiseIsCorrupt) {
    Backlog backlog(room(100));
    EXPECT_EQ(take_in(backlog, std::string(300, '\xff')),
              "corrupt block from the parent at offset 0");
    EXPECT_TRUE(backlog.empty());
    EXPECT_EQ(backlog.received(), 0U);
    EXPECT_EQ(take_in(backlog, ""), "");
    EXPECT_FALSE(backlog.busy());
}

TEST(Backlog, MoreThanWasGrantedIsAnError) {
    Backlog backlog(room(3));
    EXPECT_EQ(take_in(backlog, block_of({1, 2, 3})), "");
    backlog.pop();
    EXPECT_EQ(take_in(backlog, block_of({4}, 3)), "");
    EXPECT_EQ(take_in(backlog, block_of({5}, 4)),
              "the parent sent more queries than it was granted");
    EXPECT_EQ(backlog.received(), 5U); // what came is still accounted for
    EXPECT_EQ(drain(backlog), (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST(Backlog, BytesAreThoseOfBlocksAndComeBackWhenTheseAreFreed) {
    Backlog backlog(room(100));
    const std::string first = block_of({1, 30});
    const std::string second = block_of({20, 2}, 2);
    EXPECT_EQ(take_in(backlog, first), "");
    EXPECT_EQ(take_in(backlog, second), "");
    backlog.pop();
    backlog.sweep();
    EXPECT_EQ(backlog.take_freed(), 0U) << "both have a query that waits";
    backlog.pop();
    backlog.pop();
    EXPECT_EQ(backlog.take_freed(), 0U) << "what was sent last still borrows";
    backlog.sweep();
    EXPECT_EQ(backlog.take_freed(), second.size());
    backlog.pop();
    backlog.sweep();
    EXPECT_EQ(backlog.take_freed(), first.size());
    EXPECT_EQ(backlog.take_freed(), 0U);
}

TEST(Backlog, MoreBytesThanWereGrantedAreAnError) {
    const std::string block = block_of({1, 2, 3});
    Backlog backlog({.records = 100, .bytes = 2 * block.size()});
    EXPECT_EQ(take_in(backlog, block), "");
    EXPECT_EQ(take_in(backlog, block), "");
    EXPECT_EQ(take_in(backlog, block), "the parent sent more queries than it was granted");
    EXPECT_EQ(backlog.received(), 7U);
}

} // namespace
} // namespace reprise::querier
