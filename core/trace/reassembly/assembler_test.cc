// UDP and fragments, from packets to messages.
#include "core/base/clock.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/trace/testing/feeder.hh"
#include "core/trace/testing/packets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

/// Each datagram is given up by its second fragment: what is remembered of them is bounded too.
TEST(Fragments, CondemnedOnesAreEvictedAsWell) {
    constexpr size_t kMost = 16'384;
    Tally tally;
    FragmentTable table(kMost, 30 * kSecond, tally);
    for (std::uint32_t id = 0; id < 1'000; ++id) {
        for (const size_t begin : {0U, 56U}) {
            const Buffer packet = fragment4(begin, begin + 64, id);
            IpPacket ip;
            ASSERT_EQ(decode_packet({.link = LinkType::kRaw, .bytes = packet}, ip), Decoded::kIp);
            EXPECT_FALSE(table.add(ip, kSecond));
            EXPECT_LE(table.memory(), kMost);
        }
    }
    EXPECT_EQ(tally.get(Count::kFragmentOverlap), 1'000U);
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

} // namespace
} // namespace reprise::trace
