#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/userspace/responder.hh"
#include "proxy/stateless/userspace/segment.hh"
#include "proxy/testing/packets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::proxy::stateless {
namespace {

using proxy::testing::address;
using proxy::testing::Buffer;
using proxy::testing::make;
using proxy::testing::Recipe;
using ::testing::ElementsAreArray;

constexpr std::uint32_t kQuerySeq = 1'000;

/// A query for x. of a type, with id 0x1234.
Buffer query(std::uint8_t type = 1) {
    return {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0, type, 0, 1};
}

Buffer prefixed(const Buffer& message) {
    Buffer out;
    append16(out, message.size());
    out.insert(out.end(), message.begin(), message.end());
    return out;
}

/// A reply with its bytes, and a query over UDP.
struct Sent {
    Reply reply;
    Buffer data;
};

struct Asked {
    unsigned socket;
    Endpoint server;
    Buffer message;
};

class World : public Outside, public ::testing::Test {
protected:
    void send(const Reply& reply) override {
        sent_.push_back({reply, Buffer(reply.data.begin(), reply.data.end())});
        sent_.back().reply.data = {};
    }

    void ask(unsigned socket, const Endpoint& server, Bytes message) override {
        asked_.push_back({socket, server, Buffer(message.begin(), message.end())});
    }

    bool relay(const Segment& /*segment*/, std::uint16_t mss, Nanoseconds /*now*/) override {
        relayed_mss_ = mss;
        return relays_;
    }

    bool relayed(const Segment& /*segment*/, Nanoseconds /*now*/) override { return false; }

    Responder& responder() {
        if (!responder_) {
            responder_.emplace(options_, 1'500, 4'711, random_, *this, counters_);
        }
        return *responder_;
    }

    void take(Recipe recipe) {
        recipe.source = "192.0.2.1";
        recipe.destination = "192.0.2.53";
        recipe.protocol = kTcpProtocol;
        responder().take_packet(make(recipe), now_);
    }

    /// The number that answers to this client begin at.
    std::uint32_t handshake(std::uint16_t mss = 1'460) {
        take({.payload = {},
              .tcp_flags = kSyn,
              .seq = kQuerySeq - 1,
              .tcp_options = {2, 4, static_cast<std::uint8_t>(mss >> 8U),
                              static_cast<std::uint8_t>(mss)}});
        const std::uint32_t first = sent_.back().reply.seq + 1;
        sent_.clear();
        return first;
    }

    void take_data(std::uint32_t ack, const Buffer& data, std::uint32_t seq = kQuerySeq,
                   unsigned flags = 0) {
        take({.payload = data,
              .tcp_flags = static_cast<std::uint8_t>(kAck | kPush | flags),
              .seq = seq,
              .ack = ack});
    }

    /// The server's answer of `size` bytes to what was asked last.
    void answer(size_t size, const char* from = "192.0.2.53") {
        Buffer room(2);
        const Buffer& message = asked_.back().message;
        room.insert(room.end(), message.begin(), message.end());
        room[4] |= 0x80;
        room.resize(2 + size, 0xaa);
        responder().take_answer(asked_.back().socket, {.address = address(from), .port = 53}, room,
                                now_);
    }

    static constexpr std::uint8_t kTcpProtocol = 6;

    StatelessOptions options_;
    Random random_{1};
    StatelessCounts counters_{};
    std::vector<Sent> sent_;
    std::vector<Asked> asked_;
    Nanoseconds now_ = kSecond;
    bool relays_ = true;
    std::uint16_t relayed_mss_ = 0;

private:
    std::optional<Responder> responder_;
};

class ResponderTest : public World {};

TEST_F(ResponderTest, ASynIsAnsweredAndForgotten) {
    take({.payload = {}, .tcp_flags = kSyn, .seq = 0xffffffff});
    ASSERT_EQ(sent_.size(), 1U);
    const Reply reply = sent_[0].reply;
    EXPECT_EQ(reply.flags, kSyn | kAck);
    EXPECT_EQ(reply.ack, 0U);
    EXPECT_EQ(reply.mss, 1'460);
    EXPECT_EQ(reply.connection.client, (Endpoint{address("192.0.2.1"), 4'000}));
    take({.payload = {}, .tcp_flags = kSyn, .seq = 0xffffffff});
    EXPECT_EQ(sent_[1].reply.seq, reply.seq); // of a SYN that is sent again
    EXPECT_EQ(counters_.syn, 2U);
    EXPECT_EQ(counters_.syn_ack, 2U);
    EXPECT_EQ(responder().pending().size(), 0U);
}

TEST_F(ResponderTest, AnAckWithoutDataIsDropped) {
    take({.payload = {}, .tcp_flags = kAck, .seq = 5, .ack = 6});
    EXPECT_TRUE(sent_.empty());
    EXPECT_EQ(counters_.handshake_ack, 1U);
}

TEST_F(ResponderTest, AFinIsAcknowledged) {
    take({.payload = {}, .tcp_flags = kAck | kFin, .seq = 5, .ack = 600});
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].reply.flags, kAck);
    EXPECT_EQ(sent_[0].reply.seq, 600U);
    EXPECT_EQ(sent_[0].reply.ack, 6U);
    EXPECT_EQ(counters_.fin, 1U);
}

TEST_F(ResponderTest, AFinAcknowledgesTheQueryBeforeItAlsoWhereThatWasLost) {
    options_.early_ack = false;
    const std::uint32_t first = handshake();
    take({.payload = {}, .tcp_flags = kAck | kFin, .seq = kQuerySeq + 21, .ack = first});
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].reply.ack, kQuerySeq + 21 + 1);
}

TEST_F(ResponderTest, AQueryIsAcknowledgedAskedAndAnswered) {
    const std::uint32_t first = handshake();
    const Buffer segment = prefixed(query());
    take_data(first, segment);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].reply.seq, first);
    EXPECT_EQ(sent_[0].reply.ack, kQuerySeq + segment.size());
    EXPECT_TRUE(sent_[0].data.empty());
    ASSERT_EQ(asked_.size(), 1U);
    EXPECT_EQ(asked_[0].server, (Endpoint{address("192.0.2.53"), 53}));
    EXPECT_THAT(Bytes(asked_[0].message).subspan(2), ElementsAreArray(Bytes(query()).subspan(2)));
    EXPECT_EQ(responder().pending().size(), 1U);
    answer(30);
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[1].reply.seq, first);
    EXPECT_EQ(sent_[1].reply.ack, kQuerySeq + segment.size());
    EXPECT_EQ(sent_[1].reply.flags, kAck | kPush);
    EXPECT_EQ(sent_[1].data.size(), 32U);
    EXPECT_EQ(load16(sent_[1].data.data()), 30);
    EXPECT_EQ(load16(&sent_[1].data[2]), 0x1234);
    EXPECT_EQ(responder().pending().size(), 0U);
    EXPECT_EQ(counters_.queries, 1U);
    EXPECT_EQ(counters_.replies, 1U);
    EXPECT_EQ(counters_.segments, 1U);
}

TEST_F(ResponderTest, WithoutEarlyAckTheAnswerAcknowledges) {
    options_.early_ack = false;
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()));
    EXPECT_TRUE(sent_.empty());
    answer(30);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].reply.ack, kQuerySeq + prefixed(query()).size());
}

TEST_F(ResponderTest, AnAnswerIsCutByTheMss) {
    const std::uint32_t first = handshake(1'300);
    take_data(first, prefixed(query()));
    sent_.clear();
    answer(2'440 - 2);
    ASSERT_EQ(sent_.size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(sent_[i].data.size(), 1'220U);
        EXPECT_EQ(sent_[i].reply.seq, first + i * 1'220);
    }
    EXPECT_EQ(sent_[0].reply.flags, kAck);
    EXPECT_EQ(sent_[1].reply.flags, kAck | kPush);
    EXPECT_EQ(counters_.segments, 2U);
}

TEST_F(ResponderTest, FinLastEndsWithTheLastSegment) {
    options_.fin_last = true;
    const std::uint32_t first = handshake(536);
    take_data(first, prefixed(query()));
    sent_.clear();
    answer(600);
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[0].reply.flags, kAck);
    EXPECT_EQ(sent_[1].reply.flags, kAck | kPush | kFin);
}

TEST_F(ResponderTest, QueriesOfOneConnectionGoOnWhereItStands) {
    const std::uint32_t first = handshake(1'220);
    take_data(first, prefixed(query()));
    answer(98);
    const Buffer segment = prefixed(query(16));
    take_data(first + 100, segment, kQuerySeq + 21);
    sent_.clear();
    answer(2'000);
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[0].reply.seq, first + 100);
    EXPECT_EQ(sent_[0].data.size(), 1'220U); // still the SYN's
    EXPECT_EQ(sent_[0].reply.ack, kQuerySeq + 21 + segment.size());
}

TEST_F(ResponderTest, AQuerySentAgainIsAskedAgainUnderTheSameEntry) {
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()));
    take_data(first, prefixed(query()));
    ASSERT_EQ(asked_.size(), 2U);
    EXPECT_EQ(asked_[0].message, asked_[1].message);
    EXPECT_EQ(counters_.retransmitted, 1U);
    EXPECT_EQ(responder().pending().size(), 1U);
    answer(30);
    answer(30);
    EXPECT_EQ(counters_.replies, 1U);
    EXPECT_EQ(counters_.late, 1U);
}

TEST_F(ResponderTest, AQuerySentAgainAfterItsAnswerIsAnsweredFromTheSameNumber) {
    options_.early_ack = false;
    const std::uint32_t first = handshake();
    for (const size_t size : {2'000U, 1'900U}) { // nothing is known of the first answer
        take_data(first, prefixed(query()));
        answer(size);
    }
    ASSERT_EQ(sent_.size(), 4U);
    EXPECT_EQ(sent_[0].reply.seq, first);
    EXPECT_EQ(sent_[2].reply.seq, first);
    EXPECT_EQ(load16(sent_[2].data.data()), 1'900);
    EXPECT_EQ(counters_.retransmitted, 0U);
}

TEST_F(ResponderTest, ASecondQueryWaitsForTheFirst) {
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()));
    sent_.clear();
    take_data(first, prefixed(query(16)), kQuerySeq + 21);
    EXPECT_TRUE(sent_.empty());
    EXPECT_EQ(asked_.size(), 1U);
    EXPECT_EQ(counters_.waiting, 1U);
}

TEST_F(ResponderTest, PartsOfAQueryAreDropped) {
    const std::uint32_t first = handshake();
    const Buffer whole = prefixed(query());
    for (size_t size = 1; size < whole.size(); ++size) {
        take_data(first, Buffer(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    }
    EXPECT_TRUE(sent_.empty());
    EXPECT_TRUE(asked_.empty());
    EXPECT_EQ(counters_.not_promoted[kSplit], whole.size() - 1);
}

TEST_F(ResponderTest, OfTwoQueriesInASegmentTheFirstIsAsked) {
    const std::uint32_t first = handshake();
    Buffer both = prefixed(query());
    const Buffer second = prefixed(query(16));
    both.insert(both.end(), second.begin(), second.end());
    take_data(first, both);
    ASSERT_EQ(asked_.size(), 1U);
    EXPECT_EQ(asked_[0].message.size(), query().size());
    EXPECT_EQ(sent_[0].reply.ack, kQuerySeq + both.size());
    EXPECT_EQ(counters_.not_promoted[kPipelined], 1U);
}

TEST_F(ResponderTest, DataWithFinIsAcknowledgedWithIt) {
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()), kQuerySeq, kFin);
    EXPECT_EQ(sent_[0].reply.ack, kQuerySeq + 21 + 1);
    EXPECT_EQ(counters_.fin, 1U);
    answer(30);
    EXPECT_EQ(sent_[1].reply.ack, kQuerySeq + 21 + 1);
}

TEST_F(ResponderTest, WhatIsNoQueryIsDropped) {
    const std::uint32_t first = handshake();
    Buffer response = query();
    response[2] |= 0x80;
    take_data(first, prefixed(response));
    take_data(first, prefixed({1, 2, 3}));
    EXPECT_TRUE(asked_.empty());
    EXPECT_EQ(counters_.malformed, 2U);
    responder().take_packet(Buffer{0x45, 0, 0}, now_);
    take({.destination_port = 54, .payload = {}, .tcp_flags = kSyn});
    EXPECT_EQ(counters_.malformed, 4U);
    EXPECT_TRUE(sent_.empty());
}

TEST_F(ResponderTest, AResetAndANewSynForgetTheQuery) {
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()));
    for (const std::uint32_t other : {0U, kQuerySeq, kQuerySeq + 20, kQuerySeq + 23}) {
        take({.payload = {}, .tcp_flags = kRst, .seq = other});
        EXPECT_EQ(responder().pending().size(), 1U) << other;
    }
    take({.payload = {}, .tcp_flags = kRst, .seq = kQuerySeq + 21});
    EXPECT_EQ(counters_.rst, 5U);
    EXPECT_EQ(responder().pending().size(), 0U);
    take_data(first, prefixed(query()), kQuerySeq, kFin);
    take({.payload = {}, .tcp_flags = kRst, .seq = kQuerySeq + 22}); // behind its FIN
    EXPECT_EQ(responder().pending().size(), 0U);
    take_data(first, prefixed(query()));
    take({.payload = {}, .tcp_flags = kSyn, .seq = kQuerySeq + 7});
    sent_.clear();
    EXPECT_EQ(responder().pending().size(), 0U);
    answer(30);
    EXPECT_TRUE(sent_.empty());
    EXPECT_EQ(counters_.late, 1U);
}

TEST_F(ResponderTest, ACopyOfTheConnectionsSynForgetsNothing) {
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()));
    EXPECT_EQ(handshake(), first); // comes behind the query
    answer(30);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].reply.seq, first);
    EXPECT_EQ(counters_.late, 0U);
}

TEST_F(ResponderTest, AnswersAfterTheTimeoutAreLate) {
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()));
    EXPECT_EQ(responder().next_due(), now_ + 3 * kSecond);
    now_ += 3 * kSecond;
    answer(30);
    EXPECT_EQ(counters_.expired, 1U);
    EXPECT_EQ(counters_.late, 1U);
    EXPECT_EQ(counters_.replies, 0U);
}

TEST_F(ResponderTest, AnswersOfOthersDoNotCount) {
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()));
    sent_.clear();
    answer(30, "192.0.2.54"); // another server
    asked_.back().message[13] = 'y';
    answer(30); // another question
    asked_.back().message[13] = 'x';
    asked_.back().message[0] ^= 1U;
    answer(30); // another id
    asked_.back().message[0] ^= 1U;
    Buffer short_one(2 + 11);
    responder().take_answer(0, {.address = address("192.0.2.53"), .port = 53}, short_one, now_);
    EXPECT_TRUE(sent_.empty());
    EXPECT_EQ(counters_.late, 4U);
    answer(12); // an error without a question
    EXPECT_EQ(counters_.replies, 1U);
}

TEST_F(ResponderTest, AServerMayChangeTheCaseOfTheName) {
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()));
    asked_.back().message[13] = 'X';
    answer(30);
    EXPECT_EQ(counters_.replies, 1U);
}

TEST_F(ResponderTest, TransfersAreRelayedWhereWanted) {
    options_.axfr_detect = true;
    const std::uint32_t first = handshake(1'220);
    take_data(first, prefixed(query(252)));
    EXPECT_EQ(relayed_mss_, 1'220);
    EXPECT_TRUE(sent_.empty());
    EXPECT_TRUE(asked_.empty());
    EXPECT_EQ(counters_.promoted[kTransfer], 1U);
    relays_ = false;
    take_data(first, prefixed(query(252)));
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].reply.flags, kRst | kAck);
    EXPECT_EQ(counters_.reset, 1U);
    EXPECT_EQ(counters_.not_promoted[kTransfer], 1U);
}

TEST_F(ResponderTest, ATransferWaitsForTheQueryBefore) {
    options_.axfr_detect = true;
    const std::uint32_t first = handshake();
    take_data(first, prefixed(query()));
    sent_.clear();
    take_data(first, prefixed(query(252)), kQuerySeq + 21);
    EXPECT_EQ(relayed_mss_, 0); // both would begin at the same number
    EXPECT_TRUE(sent_.empty());
    EXPECT_EQ(counters_.waiting, 1U);
    answer(98);
    take_data(first + 100, prefixed(query(252)), kQuerySeq + 21);
    EXPECT_EQ(relayed_mss_, 1'460);
    EXPECT_EQ(counters_.promoted[kTransfer], 1U);
}

TEST_F(ResponderTest, TransfersAreAskedOverUdpOtherwise) {
    take_data(handshake(), prefixed(query(252)));
    EXPECT_EQ(asked_.size(), 1U);
}

TEST(AsksTransfer, LooksAtTheFirst64Bytes) {
    Buffer message = query(252);
    EXPECT_TRUE(asks_transfer(message));
    EXPECT_FALSE(asks_transfer(query(251)));
    EXPECT_FALSE(asks_transfer(Bytes(message).first(14)));
    Buffer label(49, 'y');
    label[0] = 48;
    message.erase(message.begin() + 12, message.begin() + 14);
    message.insert(message.begin() + 12, label.begin(), label.end());
    EXPECT_FALSE(asks_transfer(message)); // 66 bytes
    label.resize(47);
    label[0] = 46;
    message.erase(message.begin() + 12, message.begin() + 61);
    message.insert(message.begin() + 12, label.begin(), label.end());
    EXPECT_TRUE(asks_transfer(message)); // 64
}

} // namespace
} // namespace reprise::proxy::stateless
