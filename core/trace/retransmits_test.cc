#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/trace/retransmits.hh"
#include "core/wire/query.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::trace {
namespace {

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

    bool repeats(const Query& query) {
        return retransmits_.repeats(query.time, query.transport, query.source, query.message);
    }

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

} // namespace
} // namespace reprise::trace

// NOLINTEND(bugprone-unchecked-optional-access)
