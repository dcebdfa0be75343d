// Fragments and TCP streams, from packets to messages.
#include "core/clock.hh"
#include "core/trace/assembler.hh"
#include "core/trace/packet.hh"
#include "core/trace/reader.hh"
#include "core/trace/tally.hh"
#include "core/trace/test_packets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

struct Seen {
    unsigned id = 0;
    std::uint64_t connection = 0;
    bool first = false;
    bool response = false;
    Nanoseconds time = 0;
    size_t size = 0;
};

/// Feeds raw IP packets, one a second of trace time, and keeps what comes out.
class Feeder {
public:
    explicit Feeder(const ReaderOptions& options = {}) : assembler_(options) {}

    std::vector<unsigned> feed(const Buffer& packet) { return feed_at(packet, now_ + kSecond); }

    std::vector<unsigned> feed_at(const Buffer& packet, Nanoseconds time,
                                  std::uint32_t wire_length = 0) {
        now_ = time;
        const auto size = static_cast<std::uint32_t>(packet.size());
        assembler_.feed({.link = LinkType::kRaw,
                         .time = time,
                         .bytes = packet,
                         .wire_length = wire_length == 0 ? size : wire_length});
        return take();
    }

    std::vector<unsigned> finish() {
        assembler_.finish();
        return take();
    }

    [[nodiscard]] const std::vector<Seen>& seen() const { return seen_; }

    [[nodiscard]] std::uint64_t count(Count what) const { return assembler_.tally().get(what); }

    [[nodiscard]] Nanoseconds now() const { return now_; }

private:
    std::vector<unsigned> take() {
        std::vector<unsigned> ids;
        Message message;
        while (assembler_.pop(message)) {
            const unsigned id = message.bytes[0] * 256U + message.bytes[1];
            ids.push_back(id);
            seen_.push_back({.id = id,
                             .connection = message.connection,
                             .first = message.first_in_connection,
                             .response = message.response,
                             .time = message.time,
                             .size = message.bytes.size()});
        }
        return ids;
    }

    Assembler assembler_;
    Nanoseconds now_ = 0;
    std::vector<Seen> seen_;
};

Buffer part(const Buffer& whole, size_t begin, size_t end = SIZE_MAX) {
    return {whole.begin() + static_cast<std::ptrdiff_t>(begin),
            whole.begin() + static_cast<std::ptrdiff_t>(std::min(end, whole.size()))};
}

// ---- UDP

TEST(Udp, QueryAndResponseByTheirFlag) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(ipv4(udp(1'024, 53, dns(1)))), ElementsAre(1));
    EXPECT_THAT(feeder.feed(ipv4(udp(1'024, 53, dns(2, true)))), ElementsAre(2));
    EXPECT_FALSE(feeder.seen()[0].response);
    EXPECT_TRUE(feeder.seen()[1].response) << "a response, although it goes to port 53";
}

TEST(Udp, PortsAreAnOption) {
    Feeder usual;
    EXPECT_THAT(usual.feed(ipv4(udp(1'024, 5'353, dns(1)))), IsEmpty());
    EXPECT_EQ(usual.count(Count::kOtherPort), 1U);
    Feeder other({.ports = {5'353, 8'053}});
    EXPECT_THAT(other.feed(ipv4(udp(5'353, 1'024, dns(1)))), ElementsAre(1));
    EXPECT_THAT(other.feed(ipv4(udp(1'024, 53, dns(2)))), IsEmpty());
}

TEST(Udp, WhatIsNoMessageIsCounted) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(ipv4(udp(1'024, 53, Buffer(11)))), IsEmpty());
    EXPECT_THAT(feeder.feed(ipv4(udp(1'024, 53, {}))), IsEmpty());
    EXPECT_THAT(feeder.feed(ipv4(Buffer(8), {.protocol = 1})), IsEmpty());
    EXPECT_THAT(feeder.feed(ipv4(Buffer(3))), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kShortMessage), 1U);
    EXPECT_EQ(feeder.count(Count::kEmptyDatagram), 1U);
    EXPECT_EQ(feeder.count(Count::kOtherProtocol), 1U);
    EXPECT_EQ(feeder.count(Count::kBadPacket), 1U);
}

TEST(Udp, SnappedMessagesAreCountedNotYielded) {
    Feeder feeder;
    const Buffer whole = ipv4(udp(1'024, 53, dns(1)));
    for (const size_t size : {25U, 30U, 45U}) {
        EXPECT_THAT(feeder.feed(part(whole, 0, size)), IsEmpty());
    }
    EXPECT_THAT(feeder.feed_at(part(whole, 0, 10), 0, 70), IsEmpty()) << "cut inside the IP header";
    EXPECT_EQ(feeder.count(Count::kCutPacket), 4U);
}

TEST(Udp, DnsQuotedInIcmpIsNoMessage) {
    Feeder feeder;
    const Buffer quoted = hex("03 03 0000 00000000") + ipv4(udp(1'024, 53, dns(1)));
    EXPECT_THAT(feeder.feed(ipv4(quoted, {.protocol = 1})), IsEmpty());
}

// ---- fragments

const Buffer kDatagram = udp(53, 1'024, dns(9, true) + Buffer(100, 0x11));

Buffer fragment4(size_t begin, size_t end, std::uint32_t id = 1) {
    return ipv4(part(kDatagram, begin, end),
                {.more = end < kDatagram.size(), .offset = static_cast<unsigned>(begin), .id = id});
}

Buffer fragment6(size_t begin, size_t end) {
    return ipv6(part(kDatagram, begin, end), {.source = "2001:db8::1",
                                              .destination = "2001:db8::2",
                                              .more = end < kDatagram.size(),
                                              .offset = static_cast<unsigned>(begin)});
}

TEST(Fragments, InOrderReversedAndIpv6) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(fragment4(0, 64)), IsEmpty());
    EXPECT_THAT(feeder.feed(fragment4(64, 96)), IsEmpty());
    EXPECT_THAT(feeder.feed(fragment4(96, SIZE_MAX)), ElementsAre(9));
    EXPECT_THAT(feeder.feed(fragment6(64, SIZE_MAX)), IsEmpty());
    EXPECT_THAT(feeder.feed(fragment6(0, 64)), ElementsAre(9));
    EXPECT_EQ(feeder.seen()[0].size, kDatagram.size() - 8);
    EXPECT_EQ(feeder.count(Count::kFragment), 5U);
}

TEST(Fragments, OfDifferentDatagramsDoNotMix) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(fragment4(0, 64, 1)), IsEmpty());
    EXPECT_THAT(feeder.feed(fragment4(64, SIZE_MAX, 2)), IsEmpty());
    EXPECT_THAT(feeder.feed(fragment4(0, 64, 2)), ElementsAre(9));
    EXPECT_THAT(feeder.finish(), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kFragmentTimeout), 1U);
}

TEST(Fragments, DuplicatesAreHarmless) {
    Feeder feeder;
    feeder.feed(fragment4(0, 64));
    feeder.feed(fragment4(0, 64));
    EXPECT_THAT(feeder.feed(fragment4(64, SIZE_MAX)), ElementsAre(9));
    EXPECT_EQ(feeder.count(Count::kFragmentDuplicate), 1U);
}

TEST(Fragments, OverlapCondemnsTheDatagram) {
    Feeder feeder;
    feeder.feed(fragment4(0, 64));
    feeder.feed(fragment4(56, 96));
    EXPECT_THAT(feeder.feed(fragment4(64, SIZE_MAX)), IsEmpty());
    EXPECT_THAT(feeder.feed(fragment4(0, 64)), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kFragmentOverlap), 1U);
}

TEST(Fragments, TwoEndsCondemnTheDatagram) {
    Feeder feeder;
    feeder.feed(ipv4(Buffer(40), {.offset = 64}));
    feeder.feed(ipv4(Buffer(40), {.offset = 640}));
    EXPECT_EQ(feeder.count(Count::kFragmentOverlap), 1U);
}

TEST(Fragments, BeyondTheLargestDatagram) {
    Feeder feeder;
    feeder.feed(ipv4(Buffer(1'400), {.offset = 65'528}));
    EXPECT_EQ(feeder.count(Count::kFragmentOverlap), 1U);
}

TEST(Fragments, TimeOutOnTraceTime) {
    Feeder feeder({.fragment_timeout = 5 * kSecond});
    feeder.feed_at(fragment4(0, 64), 0);
    EXPECT_THAT(feeder.feed_at(fragment4(64, SIZE_MAX), 6 * kSecond), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kFragmentTimeout), 1U);
}

TEST(Fragments, OldestIsEvictedForLackOfMemory) {
    Feeder feeder({.fragment_bytes = 4'096});
    for (std::uint32_t id = 0; id < 100; ++id) {
        feeder.feed_at(ipv4(Buffer(1'400), {.more = true, .id = id}), 0);
    }
    EXPECT_GE(feeder.count(Count::kFragmentEvicted), 97U);
}

TEST(Fragments, MalformedOnesAreCounted) {
    Feeder feeder;
    feeder.feed(ipv4(Buffer(13), {.more = true}));
    feeder.feed(ipv4({}, {.more = true}));
    EXPECT_EQ(feeder.count(Count::kBadPacket), 2U);
    feeder.feed(part(fragment4(0, 64), 0, 50));
    EXPECT_EQ(feeder.count(Count::kCutPacket), 1U);
}

TEST(Fragments, ExtensionHeadersBehindTheFragmentHeader) {
    const Buffer inner = hex("11 00 0104 00000000") + kDatagram;
    const Ip first{
        .source = "2001:db8::1", .destination = "2001:db8::2", .protocol = 60, .more = true};
    const Ip last{
        .source = "2001:db8::1", .destination = "2001:db8::2", .protocol = 60, .offset = 48};
    Feeder feeder;
    feeder.feed(ipv6(part(inner, 0, 48), first));
    EXPECT_THAT(feeder.feed(ipv6(part(inner, 48), last)), ElementsAre(9));
}

// ---- TCP

Buffer client(std::uint32_t sequence, const Buffer& payload, const std::string& flags = "A",
              std::uint32_t acknowledgement = 0) {
    return ipv4(tcp({.sequence = sequence,
                     .acknowledgement = acknowledgement,
                     .flags = flags,
                     .payload = payload}),
                {.protocol = 6});
}

Buffer server(std::uint32_t sequence, const Buffer& payload, const std::string& flags = "A",
              std::uint32_t acknowledgement = 0) {
    return ipv4(tcp({.source_port = 53,
                     .destination_port = 40'000,
                     .sequence = sequence,
                     .acknowledgement = acknowledgement,
                     .flags = flags,
                     .payload = payload}),
                {.source = "198.51.100.1", .destination = "192.0.2.1", .protocol = 6});
}

Buffer message(std::uint16_t id, bool response = false) { return prefixed(dns(id, response)); }

const std::uint32_t kSize = static_cast<std::uint32_t>(message(1).size());

/// Opens the connection: the client's data begins at 101, the server's at 501.
void open(Feeder& feeder) {
    feeder.feed(client(100, {}, "S"));
    feeder.feed(server(500, {}, "SA", 101));
}

TEST(Tcp, QueryAndResponseShareAConnection) {
    Feeder feeder;
    open(feeder);
    EXPECT_THAT(feeder.feed(client(101, message(1))), ElementsAre(1));
    EXPECT_THAT(feeder.feed(server(501, message(1, true))), ElementsAre(1));
    EXPECT_THAT(feeder.feed(client(101 + kSize, message(2))), ElementsAre(2));
    const auto& seen = feeder.seen();
    EXPECT_EQ(seen[0].connection, 1U);
    EXPECT_EQ(seen[1].connection, 1U);
    EXPECT_TRUE(seen[0].first && seen[1].first) << "first of its direction";
    EXPECT_FALSE(seen[2].first);
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
    EXPECT_THAT(feeder.feed(server(501, {}, "A", 101 + kSize)), IsEmpty())
        << "acknowledges only what is there";
    EXPECT_THAT(feeder.feed(server(501, {}, "A", 101 + 3 * kSize)), ElementsAre(3));
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
    EXPECT_EQ(feeder.count(Count::kTcpUnsynchronised), 0U)
        << "the length prefix told where to go on";
}

TEST(Tcp, HoleOverABoundaryIsSearchedForTheNextMessage) {
    Feeder feeder;
    open(feeder);
    const Buffer all = message(1) + message(2) + message(3);
    feeder.feed(client(101, part(all, 0, 10)));
    feeder.feed(client(101 + kSize + 8, part(all, kSize + 8)));
    EXPECT_THAT(feeder.feed(server(501, {}, "A", 101 + 3 * kSize)), ElementsAre(3));
    EXPECT_EQ(feeder.count(Count::kTcpUnsynchronised), kSize - 8);
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
        EXPECT_EQ(feeder.count(Count::kTcpUnsynchronised), kSize - cut);
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
    EXPECT_GT(feeder.count(Count::kTcpUnsynchronised), 1'900U);
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
    EXPECT_TRUE(feeder.seen()[2].first);
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
