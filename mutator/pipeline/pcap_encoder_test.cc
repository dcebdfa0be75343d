#include "core/base/error.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "mutator/testing/mutate.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::mutator {
namespace {

using test::kBegin;
using test::Lines;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Endpoint end(std::string_view address, std::uint16_t port) {
    return {*IpAddress::parse(address), port};
}

class PcapEncoderTest : public ::testing::Test {
protected:
    PcapEncoderTest() { encoder_->begin(bytes_); }

    /// From 198.18.0.1:4000 to 192.0.2.53:53, a millisecond after the one before.
    Query query(Transport transport, std::uint64_t connection) {
        now_ += kMillisecond;
        return {.time = now_,
                .source = end("198.18.0.1", 4000),
                .destination = end("192.0.2.53", 53),
                .connection = connection,
                .transport = transport,
                .message = message_};
    }

    void put(const Query& query) {
        encoder_->encode(query, bytes_);
        if (query.message.empty() && query.connection == 0) {
            return;
        }
        put_.push_back(test::line_of(query.time, query.source, query.destination, query.transport,
                                     query.connection, query.message));
    }

    void put_close(std::uint64_t connection) {
        Query close = query(Transport::kTcp, connection);
        close.message = {};
        put(close);
    }

    Lines read_back() {
        encoder_->finish(bytes_);
        std::ofstream(folder_.file("out"), std::ios::binary) << bytes_;
        return test::read_lines(folder_.file("out"));
    }

    TemporaryFolder folder_;
    std::vector<std::uint8_t> message_ = query_bytes(7, "www.example");
    Nanoseconds now_ = kBegin + 123'456'789;
    std::unique_ptr<trace::QueryEncoder> encoder_ = trace::make_pcap_encoder(3);
    std::string bytes_;
    Lines put_; ///< as they should be read back
};

TEST_F(PcapEncoderTest, Datagrams) {
    put(query(Transport::kUdp, 0));
    Query six = query(Transport::kUdp, 0);
    six.source = end("2001:db8::1", 0);
    six.destination = end("2001:db8::53", 53);
    put(six);
    EXPECT_EQ(read_back(), put_);
}

TEST_F(PcapEncoderTest, ConnectionsKeepTheirQueriesTogether) {
    Query other = query(Transport::kTcp, 2);
    other.source.port = 4001;
    put(query(Transport::kTcp, 1));
    put(other);
    put(query(Transport::kTcp, 1));
    put_close(1);
    put(query(Transport::kTcp, 3)); // the ports of the first again
    other.time = now_ + 1;
    put(other);
    EXPECT_EQ(read_back(), put_);
}

TEST_F(PcapEncoderTest, PortsInUseBelongToTheLatestConnection) {
    put(query(Transport::kTcp, 1));
    put(query(Transport::kTcp, 2));
    put(query(Transport::kTcp, 2));
    EXPECT_EQ(read_back(), put_);
}

TEST_F(PcapEncoderTest, ConnectionsOfTheSameEndsAreSplitAndCounted) {
    for (const std::uint64_t connection : {1U, 2U, 1U, 2U}) {
        encoder_->encode(query(Transport::kTcp, connection), bytes_);
    }
    Query close = query(Transport::kTcp, 1);
    close.message = {};
    encoder_->encode(close, bytes_);
    EXPECT_EQ(encoder_->losses().connections_split, 2U);
    EXPECT_EQ(encoder_->losses().closes_left_out, 1U);
    ::testing::internal::CaptureStderr();
    EXPECT_THAT(read_back(), SizeIs(4));
}

TEST_F(PcapEncoderTest, PortsThatAreUsedAgainSplitNothing) {
    put(query(Transport::kTcp, 1)); // without a close
    put(query(Transport::kTcp, 2));
    put_close(2);
    put(query(Transport::kTcp, 0));
    put(query(Transport::kTcp, 0));
    EXPECT_EQ(encoder_->losses().connections_split, 0U);
    EXPECT_EQ(encoder_->losses().closes_left_out, 0U);
}

TEST_F(PcapEncoderTest, QueriesWithoutAConnectionHaveOneEach) {
    put(query(Transport::kTcp, 0));
    put(query(Transport::kStatelessTcp, 0));
    const Lines lines = read_back();
    ASSERT_THAT(lines, SizeIs(4)); // each with its close
    EXPECT_THAT(lines[0], HasSubstr(" tcp 1 0007"));
    EXPECT_THAT(lines[1], HasSubstr(" tcp 1 close"));
    EXPECT_THAT(lines[2], HasSubstr(" tcp 2 0007"));
    EXPECT_THAT(lines[3], HasSubstr(" tcp 2 close"));
}

TEST_F(PcapEncoderTest, ALongMessageTakesTwoSegments) {
    message_.resize(65'535);
    put(query(Transport::kTcp, 1));
    EXPECT_EQ(read_back(), put_);
}

TEST_F(PcapEncoderTest, ACloseOfNothingIsNothing) {
    const size_t size = bytes_.size();
    put_close(5);
    EXPECT_EQ(bytes_.size(), size);
    EXPECT_EQ(encoder_->losses().closes_left_out, 1U);
}

TEST_F(PcapEncoderTest, MoreConnectionsThanItFollows) {
    for (std::uint16_t i = 0; i < 4; ++i) {
        Query next = query(Transport::kTcp, i + 1U);
        next.source.port = static_cast<std::uint16_t>(5000 + i);
        encoder_->encode(next, bytes_);
    }
    Query again = query(Transport::kTcp, 1);
    again.source.port = 5000;
    encoder_->encode(again, bytes_);
    const Lines lines = read_back();
    ASSERT_THAT(lines, SizeIs(5));
    EXPECT_THAT(lines[4], HasSubstr(" tcp 5 "));
}

TEST_F(PcapEncoderTest, WhatACaptureCannotHold) {
    EXPECT_THROW(put(query(Transport::kTls, 1)), Error);
    Query mixed = query(Transport::kUdp, 0);
    mixed.source = end("2001:db8::1", 1);
    EXPECT_THROW(put(mixed), Error);
    Query early = query(Transport::kUdp, 0);
    early.time = -1;
    EXPECT_THROW(put(early), Error);
}

TEST_F(PcapEncoderTest, TheSameEveryTime) {
    const auto other = trace::make_pcap_encoder(3);
    std::string bytes;
    other->begin(bytes);
    for (int i = 0; i < 5; ++i) {
        const Query next = query(Transport::kTcp, 0);
        encoder_->encode(next, bytes_);
        other->encode(next, bytes);
    }
    EXPECT_EQ(bytes, bytes_);
}

} // namespace
} // namespace reprise::mutator

// NOLINTEND(bugprone-unchecked-optional-access)
