// TCP streams, from packets to messages.
#include "core/base/clock.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/trace/testing/feeder.hh"
#include "core/trace/testing/packets.hh"
#include "core/trace/testing/tcp.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Tcp, QueryAndResponseShareAConnection) {
    Feeder feeder;
    open(feeder);
    EXPECT_THAT(feeder.feed(client(101, message(1))), ElementsAre(1));
    EXPECT_THAT(feeder.feed(server(501, message(1, true))), ElementsAre(1));
    EXPECT_THAT(feeder.feed(client(101 + kSize, message(2))), ElementsAre(2));
    const auto& seen = feeder.seen();
    EXPECT_EQ(seen[0].connection, 1U);
    EXPECT_EQ(seen[1].connection, 1U);
    EXPECT_EQ(feeder.count(Count::kTcpMidStream), 0U);
}

TEST(Tcp, ManyInOneSegmentAndOneOverMany) {
    Feeder feeder;
    open(feeder);
    EXPECT_THAT(feeder.feed(client(101, message(1) + message(2) + part(message(3), 0, 1))),
                ElementsAre(1, 2));
    const std::uint32_t third = 101 + 2 * kSize;
    for (std::uint32_t i = 1; i + 1 < kSize; ++i) {
        ASSERT_THAT(feeder.feed(client(third + i, part(message(3), i, i + 1))), IsEmpty());
    }
    EXPECT_THAT(feeder.feed(client(third + kSize - 1, part(message(3), kSize - 1))),
                ElementsAre(3));
    EXPECT_EQ(feeder.seen()[2].time, feeder.now());
}

TEST(Tcp, ReorderedAndRepeatedSegments) {
    Feeder feeder;
    open(feeder);
    const Buffer all = message(1) + message(2) + message(3);
    EXPECT_THAT(feeder.feed(client(101 + 60, part(all, 60))), IsEmpty());
    EXPECT_THAT(feeder.feed(client(101 + 60, part(all, 60))), IsEmpty());
    EXPECT_THAT(feeder.feed(client(101 + 30, part(all, 30, 70))), IsEmpty());
    EXPECT_THAT(feeder.feed(client(101, part(all, 0, 40))), ElementsAre(1, 2, 3));
    EXPECT_THAT(feeder.feed(client(101, all)), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kTcpOutOfOrder), 2U);
    EXPECT_EQ(feeder.count(Count::kTcpRetransmission), 2U);
    EXPECT_EQ(feeder.count(Count::kTcpGap), 0U);
}

TEST(Tcp, RetransmissionWithMoreDataGivesTheNewPart) {
    Feeder feeder;
    open(feeder);
    feeder.feed(client(101, part(message(1), 0, 10)));
    EXPECT_THAT(feeder.feed(client(101, message(1) + message(2))), ElementsAre(1, 2));
}

TEST(Tcp, SequenceNumbersWrap) {
    Feeder feeder;
    const std::uint32_t isn = 0xfffffff0U;
    feeder.feed(client(isn, {}, "S"));
    const Buffer all = message(1) + message(2);
    EXPECT_THAT(feeder.feed(client(isn + 1 + 40, part(all, 40))), IsEmpty());
    EXPECT_THAT(feeder.feed(client(isn + 1, part(all, 0, 40))), ElementsAre(1, 2));
}

TEST(Tcp, DataInTheSyn) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(client(100, message(1), "S")), ElementsAre(1));
    EXPECT_THAT(feeder.feed(client(101 + kSize, message(2))), ElementsAre(2));
}

TEST(Tcp, HoleIsGivenUpWhenThePeerAcknowledgesBeyondIt) {
    Feeder feeder;
    open(feeder);
    EXPECT_THAT(feeder.feed(client(101, message(1))), ElementsAre(1));
    EXPECT_THAT(feeder.feed_at(client(101 + 2 * kSize, message(3)), 77), IsEmpty());
    EXPECT_THAT(feeder.feed_at(server(501, {}, "A", 101 + kSize), 78), IsEmpty())
        << "acknowledges only what is there";
    EXPECT_THAT(feeder.feed_at(server(501, {}, "A", 101 + 3 * kSize), kSecond / 2), ElementsAre(3));
    EXPECT_EQ(feeder.seen().back().time, 77)
        << "when the segment came, not when the hole was given up";
    EXPECT_EQ(feeder.count(Count::kTcpGap), 1U);
    EXPECT_THAT(feeder.feed(client(101 + 3 * kSize, message(4))), ElementsAre(4));
}

TEST(Tcp, HoleInsideAMessageLosesOnlyThatMessage) {
    Feeder feeder;
    open(feeder);
    const Buffer all = message(1) + message(2) + message(3);
    feeder.feed(client(101, part(all, 0, 10)));
    feeder.feed(client(101 + 20, part(all, 20))); // 10 bytes of message 1 are lost
    EXPECT_THAT(feeder.feed(server(501, {}, "A", 101 + static_cast<std::uint32_t>(all.size()))),
                ElementsAre(2, 3));
    EXPECT_EQ(feeder.count(Count::kTcpGapMessage), 1U);
    EXPECT_EQ(feeder.count(Count::kTcpUnsynchronized), 0U)
        << "the length prefix told where to go on";
}

TEST(Tcp, HoleOverABoundaryIsSearchedForTheNextMessage) {
    Feeder feeder;
    open(feeder);
    const Buffer all = message(1) + message(2) + message(3);
    feeder.feed(client(101, part(all, 0, 10)));
    feeder.feed(client(101 + kSize + 8, part(all, kSize + 8)));
    EXPECT_THAT(feeder.feed(server(501, {}, "A", 101 + 3 * kSize)), ElementsAre(3));
    EXPECT_EQ(feeder.count(Count::kTcpUnsynchronized), kSize - 8);
}

TEST(Tcp, HolesEndWithTheConnection) {
    Feeder at_reset;
    open(at_reset);
    at_reset.feed(client(101 + kSize, message(2)));
    EXPECT_THAT(at_reset.feed(server(501, {}, "R")), ElementsAre(2));
    Feeder at_end;
    open(at_end);
    at_end.feed(client(101 + kSize, message(2)));
    EXPECT_THAT(at_end.finish(), ElementsAre(2));
    Feeder at_syn;
    open(at_syn);
    at_syn.feed(client(101 + kSize, message(2)));
    EXPECT_THAT(at_syn.feed(client(9'000, {}, "S")), ElementsAre(2));
}

TEST(Tcp, OldHolesAreGivenUpWithoutAcknowledgements) {
    Feeder feeder;
    feeder.feed(client(100, {}, "S"));
    feeder.feed_at(client(101 + kSize, message(2)), 10 * kSecond);
    EXPECT_THAT(feeder.feed_at(client(101 + 2 * kSize, message(3)), 21 * kSecond),
                ElementsAre(2, 3));
    EXPECT_EQ(feeder.seen().front().time, 21 * kSecond) << "no step back in time";
}

TEST(Tcp, SnappedSegmentIsAHole) {
    Feeder feeder;
    open(feeder);
    const Buffer whole = client(101, message(1) + message(2));
    EXPECT_THAT(feeder.feed(part(whole, 0, whole.size() - 5)), ElementsAre(1));
    feeder.feed(client(101 + 2 * kSize, message(3)));
    EXPECT_THAT(feeder.feed(server(501, {}, "A", 101 + 3 * kSize)), ElementsAre(3));
    EXPECT_EQ(feeder.count(Count::kCutPacket), 1U);
    EXPECT_EQ(feeder.count(Count::kTcpGapMessage), 1U);
}

TEST(Tcp, CaptureFromTheMiddleOfAConnection) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(client(7'000, message(1))), ElementsAre(1));
    EXPECT_THAT(feeder.feed(server(9'000, message(1, true))), ElementsAre(1));
    EXPECT_EQ(feeder.count(Count::kTcpMidStream), 1U);
    EXPECT_EQ(feeder.seen()[0].connection, feeder.seen()[1].connection);
}

TEST(Tcp, CaptureFromTheMiddleOfAMessage) {
    for (std::uint32_t cut = 1; cut < kSize; ++cut) {
        Feeder feeder;
        const Buffer all = message(1) + message(2);
        EXPECT_THAT(feeder.feed(client(7'000, part(all, cut))), ElementsAre(2)) << cut;
        EXPECT_EQ(feeder.count(Count::kTcpUnsynchronized), kSize - cut);
    }
}

TEST(Tcp, CaptureFromTheMiddleWithASplitHeader) {
    Feeder feeder;
    const Buffer all = part(message(1), 9) + message(2);
    const std::uint32_t half = kSize - 9 + 6;
    EXPECT_THAT(feeder.feed(client(7'000, part(all, 0, half))), IsEmpty());
    EXPECT_THAT(feeder.feed(client(7'000 + half, part(all, half))), ElementsAre(2));
}

TEST(Tcp, NothingPlausibleIsNeverYielded) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(client(7'000, Buffer(1'000, 0x16))), IsEmpty());
    EXPECT_THAT(feeder.feed(client(8'000, Buffer(1'000, 0x00))), IsEmpty());
    EXPECT_THAT(feeder.finish(), IsEmpty());
    EXPECT_GT(feeder.count(Count::kTcpUnsynchronized), 1'900U);
}

TEST(Tcp, NewSynIsANewConnection) {
    Feeder feeder;
    open(feeder);
    feeder.feed(client(101, message(1)));
    feeder.feed(client(100, {}, "S"));
    EXPECT_THAT(feeder.feed(client(101 + kSize, message(2))), ElementsAre(2))
        << "a repeated SYN changes nothing";
    feeder.feed(client(70'000, {}, "S"));
    EXPECT_THAT(feeder.feed(client(70'001, message(3))), ElementsAre(3));
    EXPECT_EQ(feeder.seen()[1].connection, 1U);
    EXPECT_EQ(feeder.seen()[2].connection, 2U);
}

TEST(Tcp, PortsUsedAgainWithoutTheSynInTheCapture) {
    Feeder feeder;
    open(feeder);
    feeder.feed(client(101, message(1)));
    EXPECT_THAT(feeder.feed(client(0x80000000U, message(2))), ElementsAre(2));
    EXPECT_EQ(feeder.seen()[1].connection, 2U);
}

TEST(Tcp, SynBehindItsData) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(client(101, message(1))), ElementsAre(1));
    feeder.feed(client(100, {}, "S"));
    EXPECT_THAT(feeder.feed(client(101 + kSize, message(2))), ElementsAre(2));
    EXPECT_EQ(feeder.seen()[1].connection, 1U);
}

TEST(Tcp, CloseAndLateRetransmission) {
    Feeder feeder;
    open(feeder);
    feeder.feed(client(101, message(1), "AF"));
    feeder.feed(server(501, message(1, true), "AF"));
    EXPECT_THAT(feeder.feed(client(101, message(1), "AF")), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kTcpRetransmission), 1U);
}

TEST(Tcp, ZeroAndShortMessagesAreCounted) {
    Feeder feeder;
    open(feeder);
    EXPECT_THAT(feeder.feed(client(101, be16(0) + be16(5) + Buffer(5) + message(1))),
                ElementsAre(1));
    EXPECT_EQ(feeder.count(Count::kTcpEmptyMessage), 1U);
    EXPECT_EQ(feeder.count(Count::kShortMessage), 1U);
}

TEST(Tcp, MessageCutByTheEndIsCounted) {
    Feeder feeder;
    open(feeder);
    feeder.feed(client(101, part(message(1), 0, 20)));
    EXPECT_THAT(feeder.finish(), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kTcpGapMessage), 1U);
}

TEST(Tcp, KeepAliveProbeIsNoData) {
    Feeder feeder;
    open(feeder);
    feeder.feed(client(101, message(1)));
    EXPECT_THAT(feeder.feed(client(101 + kSize - 1, Buffer(1))), IsEmpty());
    EXPECT_THAT(feeder.feed(client(101 + kSize, message(2))), ElementsAre(2));
}

TEST(Tcp, WhatCarriesNothingOpensNothing) {
    Feeder feeder;
    feeder.feed(server(500, {}, "R"));
    feeder.feed(server(500, {}, "A"));
    feeder.feed(server(500, {}, "AF"));
    EXPECT_EQ(feeder.count(Count::kTcpMidStream), 0U);
}

TEST(Tcp, IdleConnectionsAreForgotten) {
    Feeder feeder({.connection_timeout = 60 * kSecond});
    open(feeder);
    feeder.feed(client(101, message(1)));
    EXPECT_THAT(feeder.feed_at(client(101 + kSize, message(2)), feeder.now() + 61 * kSecond),
                ElementsAre(2));
    EXPECT_EQ(feeder.seen()[1].connection, 2U);
}

Buffer from_port(unsigned port, std::uint32_t sequence, const Buffer& payload,
                 const std::string& flags) {
    return ipv4(
        tcp({.source_port = port, .sequence = sequence, .flags = flags, .payload = payload}),
        {.protocol = 6});
}

/// As in a capture of one direction, which has nothing that ends a hole.
TEST(Tcp, WhatAnIdleConnectionHeldIsNoStepBackInTime) {
    for (const bool at_end : {false, true}) {
        Feeder feeder;
        feeder.feed_at(client(100, {}, "S"), 0);
        feeder.feed_at(client(101 + kSize, message(2), "AF"), kSecond);
        feeder.feed_at(from_port(999, 1, {}, "S"), (at_end ? 200 : 400) * kSecond);
        feeder.finish();
        ASSERT_EQ(feeder.seen().size(), 1U);
        EXPECT_EQ(feeder.seen().front().time, feeder.now());
    }
}

TEST(Tcp, MostConnectionsAndMemoryAreBounded) {
    Feeder few({.connections = 10});
    Feeder small({.stream_bytes = 100'000});
    const Buffer large = be16(60'000) + Buffer(20'000, 1);
    for (unsigned port = 1'000; port < 1'100; ++port) {
        few.feed_at(from_port(port, 1, {}, "S"), 0);
        small.feed_at(from_port(port, 1, large, "S"), 0);
    }
    EXPECT_EQ(few.count(Count::kTcpEvicted), 90U);
    EXPECT_GE(small.count(Count::kTcpEvicted), 94U);
}

TEST(Tcp, SegmentsHeldAreBounded) {
    Feeder feeder;
    open(feeder);
    std::vector<unsigned> ids;
    for (std::uint16_t i = 1; i < 3'000 && ids.empty(); ++i) {
        ids = feeder.feed_at(client(101 + i * kSize, message(i)), 0);
    }
    EXPECT_EQ(feeder.count(Count::kTcpGap), 1U);
    EXPECT_EQ(ids.size(), 1'025U);
}

TEST(Tcp, FragmentedSegment) {
    Feeder feeder;
    open(feeder);
    const Buffer segment = tcp({.sequence = 101, .payload = message(1)});
    feeder.feed(ipv4(part(segment, 0, 32), {.protocol = 6, .more = true}));
    EXPECT_THAT(feeder.feed(ipv4(part(segment, 32), {.protocol = 6, .offset = 32})),
                ElementsAre(1));
}

TEST(Tcp, TransferOfManyMessages) {
    Feeder feeder;
    open(feeder);
    Buffer all;
    for (std::uint16_t i = 0; i < 300; ++i) {
        all = std::move(all) + message(i, true);
    }
    size_t yielded = 0;
    for (size_t at = 0; at < all.size(); at += 1'448) {
        yielded +=
            feeder
                .feed_at(server(501 + static_cast<std::uint32_t>(at), part(all, at, at + 1'448)), 0)
                .size();
    }
    EXPECT_EQ(yielded, 300U);
}

} // namespace
} // namespace reprise::trace
