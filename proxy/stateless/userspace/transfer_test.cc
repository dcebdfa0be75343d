#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "proxy/stateless/userspace/segment.hh"
#include "proxy/stateless/userspace/transfer.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace reprise::proxy::stateless {
namespace {

using Buffer = std::vector<std::uint8_t>;
using ::testing::ElementsAreArray;

constexpr std::uint32_t kOurs = 0xffffff00; // wraps during every transfer
constexpr std::uint32_t kTheirs = 0xfffffffe;
constexpr std::uint16_t kMss = 1'000;

/// A transfer whose query is `query_`, and the client's side of it.
class TransferTest : public ::testing::Test {
protected:
    TransferTest() {
        transfer_.take(segment_, now_);
        send();
    }

    Segment from_client(std::uint32_t acknowledged, Bytes data = {}, unsigned flags = 0) {
        Segment one;
        one.seq = kTheirs + static_cast<std::uint32_t>(query_.size()) + said_;
        one.ack = kOurs + acknowledged;
        one.flags = static_cast<std::uint8_t>(kAck | flags);
        one.window = window_;
        one.data = data;
        return one;
    }

    bool acknowledge(std::uint32_t acknowledged, unsigned flags = 0) {
        const bool taken = transfer_.take(from_client(acknowledged, {}, flags), now_);
        said_ += (flags & kFin) != 0 ? 1 : 0;
        return taken;
    }

    /// Sends what may be sent; how many segments.
    size_t send() {
        sent_.clear();
        transfer_.send(now_, [this](const Reply& reply) {
            sent_.push_back(reply);
            const std::uint32_t at = reply.seq - kOurs;
            if (got_.size() < at + reply.data.size()) {
                got_.resize(at + reply.data.size());
            }
            std::ranges::copy(reply.data, got_.begin() + at);
        });
        return sent_.size();
    }

    Buffer query_{0, 1, 7};
    Segment segment_{.connection = {},
                     .seq = kTheirs,
                     .ack = kOurs,
                     .flags = kAck,
                     .window = 65'535,
                     .mss = 0,
                     .data = query_};
    Nanoseconds now_ = kSecond;
    Transfer transfer_{segment_, kMss, now_};
    std::vector<Reply> sent_;
    Buffer got_; ///< what the client has been sent, from the first byte on
    std::uint16_t window_ = 65'535;
    std::uint32_t said_ = 0; ///< after the query
};

Buffer numbers(size_t size) {
    Buffer out(size);
    std::iota(out.begin(), out.end(), std::uint8_t{0});
    return out;
}

TEST_F(TransferTest, TheQueryGoesToTheServerAndIsAcknowledged) {
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].ack, kTheirs + 3);
    EXPECT_EQ(sent_[0].seq, kOurs);
    EXPECT_THAT(transfer_.to_server(), ElementsAreArray(query_));
    transfer_.sent_to_server(2);
    EXPECT_EQ(transfer_.to_server().size(), 1U);
    EXPECT_EQ(send(), 0U);
}

TEST_F(TransferTest, BytesComeInTheirOrderAndEndWithFin) {
    const Buffer all = numbers(25'500);
    transfer_.append(all);
    transfer_.end();
    EXPECT_EQ(send(), 10U); // as many as a congestion window begins with
    for (std::uint32_t at = 0; at < all.size() && got_.size() < all.size(); at += 1'000) {
        acknowledge(at + 1'000);
        send();
    }
    EXPECT_EQ(got_, all);
    ASSERT_FALSE(sent_.empty());
    EXPECT_EQ(sent_.back().flags, kAck | kFin);
    transfer_.sent_to_server(3);
    acknowledge(25'501);
    EXPECT_FALSE(transfer_.finished());
    acknowledge(25'501, kFin);
    EXPECT_TRUE(transfer_.client_ended());
    EXPECT_TRUE(transfer_.finished());
    EXPECT_EQ(send(), 1U); // the client's FIN is acknowledged
    EXPECT_EQ(sent_[0].ack, kTheirs + 4);
}

TEST_F(TransferTest, NothingBeyondTheWindow) {
    window_ = 1'500;
    acknowledge(0);
    transfer_.append(numbers(5'000));
    EXPECT_EQ(send(), 2U);
    EXPECT_EQ(got_.size(), 1'500U);
    EXPECT_EQ(send(), 0U);
    acknowledge(1'000);
    EXPECT_EQ(send(), 1U);
    EXPECT_EQ(got_.size(), 2'500U);
}

TEST_F(TransferTest, AClosedWindowIsAskedForByOneByte) {
    window_ = 0;
    acknowledge(0);
    transfer_.append(numbers(5'000));
    EXPECT_EQ(send(), 0U);
    EXPECT_LT(transfer_.next_due(), now_ + kSecond);
    now_ = transfer_.next_due();
    EXPECT_EQ(send(), 1U);
    EXPECT_EQ(sent_[0].data.size(), 1U);
    acknowledge(0); // it was not taken
    window_ = 65'535;
    acknowledge(0);
    now_ = transfer_.next_due();
    send();
    EXPECT_GE(sent_[0].data.size(), 1'000U);
}

TEST_F(TransferTest, WhatIsLostIsSentAgainAfterAWhile) {
    const Buffer all = numbers(3'000);
    transfer_.append(all);
    EXPECT_EQ(send(), 3U);
    const Nanoseconds first = transfer_.next_due();
    now_ = first - 1;
    EXPECT_EQ(send(), 0U);
    now_ = first;
    EXPECT_EQ(send(), 1U); // one segment, until an acknowledgement comes
    EXPECT_EQ(sent_[0].seq, kOurs);
    const Nanoseconds wait = transfer_.next_due() - now_;
    now_ = transfer_.next_due();
    EXPECT_EQ(send(), 1U);
    EXPECT_EQ(transfer_.next_due() - now_, 2 * wait); // and ever longer
    acknowledge(1'000);
    EXPECT_EQ(send(), 2U);
    acknowledge(3'000);
    EXPECT_EQ(send(), 0U);
    EXPECT_EQ(transfer_.next_due(), now_ + Transfer::kIdle);
}

TEST_F(TransferTest, TheThirdAcknowledgementOfAByteTellsOfALoss) {
    transfer_.append(numbers(5'000));
    send();
    acknowledge(1'000);
    send();
    for (int i = 0; i < 2; ++i) {
        acknowledge(1'000);
        EXPECT_EQ(send(), 0U);
    }
    acknowledge(1'000);
    EXPECT_GE(send(), 1U);
    EXPECT_EQ(sent_[0].seq, kOurs + 1'000);
    acknowledge(5'000); // the others had come
    EXPECT_EQ(send(), 0U);
}

TEST_F(TransferTest, TheServersBytesAreBounded) {
    transfer_.append(numbers(Transfer::kMostToClient));
    EXPECT_EQ(transfer_.room(), 0U);
    send();
    acknowledge(3'000);
    EXPECT_EQ(transfer_.room(), 3'000U);
}

TEST_F(TransferTest, TheClientsBytesAreBoundedAndInOrder) {
    const Buffer more = numbers(60'000);
    EXPECT_TRUE(transfer_.take(from_client(0, more), now_));
    said_ += 60'000;
    EXPECT_FALSE(transfer_.take(from_client(0, more), now_)); // no room
    send();
    EXPECT_EQ(sent_[0].ack, kTheirs + 60'003); // what was taken
    transfer_.sent_to_server(60'003);
    said_ += 5;
    EXPECT_FALSE(transfer_.take(from_client(0, more), now_)); // a gap
    said_ -= 5;
    EXPECT_TRUE(transfer_.take(from_client(0, more), now_));
    EXPECT_THAT(transfer_.to_server(), ElementsAreArray(more));
}

TEST_F(TransferTest, AcknowledgementsOfWhatWasNeverSentDoNotCount) {
    transfer_.append(numbers(100));
    send();
    acknowledge(101);
    acknowledge(0x8000'0000);
    EXPECT_EQ(transfer_.room(), Transfer::kMostToClient - 100);
}

TEST_F(TransferTest, FailsByAResetOrWithoutProgress) {
    EXPECT_FALSE(transfer_.failed(now_ + Transfer::kIdle - 1));
    EXPECT_TRUE(transfer_.failed(now_ + Transfer::kIdle));
    ++said_;
    EXPECT_FALSE(acknowledge(0, kRst)) << "a number that does not come next";
    --said_;
    EXPECT_TRUE(acknowledge(0, kRst));
    EXPECT_EQ(transfer_.reset().flags, kRst | kAck);
    EXPECT_EQ(transfer_.reset().seq, kOurs);
}

} // namespace
} // namespace reprise::proxy::stateless
