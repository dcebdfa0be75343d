// One layer of tunnel, as the two that look into packets see it: Assembler and sort_packet().
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/trace/testing/feeder.hh"
#include "core/trace/testing/packets.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr unsigned kGre = 47;

Buffer gre(const char* header, const Buffer& inner) {
    return ipv4(hex(header) + inner,
                {.source = "10.0.0.1", .destination = "10.0.0.2", .protocol = kGre});
}

Buffer vxlan(const Buffer& frame) {
    return ipv4(udp(50'000, 4'789, hex("08000000 00000100") + frame));
}

/// VXLAN-GPE: the number of what follows.
Buffer gpe(const char* next, const Buffer& inside) {
    return ipv4(udp(50'000, 4'790, hex("0c0000") + hex(next) + hex("00000100") + inside));
}

Buffer gtp(const char* header, const Buffer& inside) {
    return ipv4(udp(50'000, 2'152, hex(header) + inside));
}

Buffer geneve(const char* header, const Buffer& inner) {
    return ipv6(udp(50'000, 6'081, hex(header) + inner));
}

const Buffer kInner = ipv4(udp(1'024, 53, dns(7)));
const Buffer kInner6 = ipv6(udp(1'024, 53, dns(7)));

std::map<std::string, Buffer> tunnels() {
    const Buffer frame = ethernet(kInner);
    const Buffer session = hex("100188be 00000001");
    return {
        {"GRE", gre("0000 0800", kInner)},
        {"GRE of IPv6", gre("0000 86dd", kInner6)},
        {"GRE with checksum, key and number", gre("b000 0800 00000000 00000001 00000002", kInner)},
        {"GRE of Ethernet", gre("0000 6558", frame)},
        {"ERSPAN I", gre("0000 88be", frame)},
        {"ERSPAN II", gre("1000 88be 00000001 1001000a 00000000", frame)},
        {"ERSPAN III", gre("1000 22eb 00000001 2001000a 00000000 00000000", frame)},
        {"ERSPAN III, 8 bytes more",
         gre("1000 22eb 00000001 2001000a 00000000 00000001 0000000000000000", frame)},
        {"VXLAN", vxlan(frame)},
        {"VXLAN on Linux's old port", ipv4(udp(5, 8'472, hex("08000000 00000100") + frame))},
        {"VXLAN of VLAN", vxlan(ethernet(kInner, hex("8100 0064")))},
        {"VXLAN with a policy", ipv4(udp(5, 4'789, hex("88000001 00000100") + frame))},
        {"VXLAN-GPE of IPv4", gpe("01", kInner)},
        {"VXLAN-GPE of IPv6", gpe("02", kInner6)},
        {"VXLAN-GPE of Ethernet", gpe("03", frame)},
        {"VXLAN-GPE of MPLS", gpe("05", hex("0006413f") + kInner)},
        {"GTP-U", gtp("30ff 0048 00000001", kInner)},
        {"GTP-U with a number", gtp("32ff 004c 00000001 00070000", kInner6)},
        {"GTP-U with extensions",
         gtp("34ff 0058 00000001 00000085 01 0005 40 02 001000000000 00", kInner)},
        {"GRE over UDP", ipv4(udp(50'000, 4'754, hex("0000 0800") + kInner))},
        {"MPLS over UDP", ipv4(udp(50'000, 6'635, hex("0006413f") + kInner))},
        {"GRE of MPLS", gre("0000 8847", hex("0006403f 0006413f") + kInner)},
        {"Geneve", geneve("0000 6558 00000100", frame)},
        {"Geneve with options, of IP", geneve("0200 0800 00000100 0102030405060708", kInner)},
        {"6in4", ipv4(kInner6, {.protocol = 41})},
        {"IP in IP", ipv4(kInner, {.protocol = 4})},
        {"IPv4 in IPv6",
         ipv6(kInner, {.source = "2001:db8::1", .destination = "2001:db8::2", .protocol = 4})},
    };
}

struct SortResult {
    Sorted sorted = Sorted::kNothing;
    unsigned id = 0;
    Tally tally;
};

SortResult sort(const Buffer& packet) {
    SortResult out;
    Query query;
    out.sorted =
        sort_packet({.link = LinkType::kRaw, .bytes = packet}, DnsPorts({53}), out.tally, query);
    out.id = query.message.empty() ? 0 : query.message[0] * 256U + query.message[1];
    return out;
}

TEST(Tunnels, OneLayerIsOpened) {
    for (const auto& [name, packet] : tunnels()) {
        Feeder feeder;
        EXPECT_THAT(feeder.feed(packet), ElementsAre(7)) << name;
        EXPECT_EQ(feeder.count(Count::kTunnel), 1U) << name;
        const SortResult result = sort(packet);
        EXPECT_EQ(result.sorted, Sorted::kMessage) << name;
        EXPECT_EQ(result.id, 7U) << name;
        EXPECT_EQ(result.tally.get(Count::kTunnel), 1U) << name;
        EXPECT_EQ(feeder.seen().at(0).destination, feeder.seen().at(0).source == "192.0.2.1:1024"
                                                       ? "198.51.100.1:53"
                                                       : "[2001:db8::2]:53")
            << name << ": the ends are those inside";
    }
}

TEST(Tunnels, ASecondLayerIsCounted) {
    for (const auto& [name, packet] : tunnels()) {
        const Buffer twice = ipv4(packet[0] >> 4U == 4 ? packet : Buffer(packet),
                                  {.protocol = packet[0] >> 4U == 4 ? 4U : 41U});
        Feeder feeder;
        EXPECT_THAT(feeder.feed(twice), IsEmpty()) << name;
        EXPECT_EQ(feeder.count(Count::kTunnelUnread), 1U) << name;
        const SortResult result = sort(twice);
        EXPECT_EQ(result.sorted, Sorted::kNothing) << name;
        EXPECT_EQ(result.tally.get(Count::kTunnelUnread), 1U) << name;
    }
}

TEST(Tunnels, WhatHoldsNeitherIpNorEthernetIsCounted) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(gre("0000 880b", Buffer(40))), IsEmpty()) << "PPP";
    EXPECT_THAT(feeder.feed(gre("3001 880b 00040001 00000001", Buffer(4))), IsEmpty()) << "PPTP";
    EXPECT_THAT(feeder.feed(geneve("0000 894f 00000100", Buffer(40))), IsEmpty()) << "NSH";
    EXPECT_THAT(feeder.feed(gpe("04", Buffer(40))), IsEmpty()) << "NSH";
    EXPECT_THAT(feeder.feed(gpe("77", Buffer(40))), IsEmpty());
    EXPECT_THAT(feeder.feed(gtp("30ff 0028 00000001", Buffer(40))), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kTunnelUnread), 6U);
    EXPECT_THAT(feeder.feed(gre("0000 8847", hex("0006413f") + Buffer(40, 0xff))), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kMplsUnread), 1U);
    EXPECT_THAT(feeder.feed(gtp("3001 0000 00000000", {})), IsEmpty()) << "an echo request";
    EXPECT_EQ(feeder.count(Count::kOtherPort), 1U);
    EXPECT_THAT(feeder.feed(vxlan(hex("020000000001 020000000002 0806") + Buffer(28))), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kNotIp), 1U) << "ARP";
}

TEST(Tunnels, CutAndDamagedHeadersAreCounted) {
    for (const auto& [name, packet] : tunnels()) {
        for (size_t size = 0; size < packet.size(); ++size) {
            Feeder feeder;
            EXPECT_THAT(feeder.feed_at(part(packet, 0, size), 0, 2'000), IsEmpty()) << name;
            EXPECT_EQ(feeder.count(Count::kCutPacket), 1U) << name << size;
        }
    }
    Feeder feeder;
    EXPECT_THAT(feeder.feed(gre("0000", {})), IsEmpty());
    EXPECT_THAT(feeder.feed(ipv4(udp(50'000, 4'789, hex("0800")))), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kBadPacket), 2U);
}

/// A resolver may choose a tunnel's port to ask from.
TEST(Tunnels, ADnsPortAtEitherEndIsNoTunnel) {
    Feeder feeder;
    EXPECT_THAT(feeder.feed(ipv4(udp(53, 4'789, dns(1, true)))), ElementsAre(1));
    EXPECT_THAT(feeder.feed(ipv4(udp(4'789, 53, dns(2)))), ElementsAre(2));
    EXPECT_EQ(feeder.count(Count::kTunnel), 0U);
}

TEST(Tunnels, StreamsAndFragmentsInside) {
    const auto segment = [](std::uint32_t sequence, const Buffer& payload,
                            const std::string& flags) {
        return vxlan(ethernet(ipv4(tcp({.sequence = sequence, .flags = flags, .payload = payload}),
                                   {.protocol = 6})));
    };
    Feeder feeder;
    EXPECT_THAT(feeder.feed(segment(100, {}, "S")), IsEmpty());
    EXPECT_THAT(feeder.feed(segment(101, prefixed(dns(3)), "A")), ElementsAre(3));
    const SortResult result = sort(segment(101, prefixed(dns(3)), "A"));
    EXPECT_EQ(result.sorted, Sorted::kAssembler);
    EXPECT_EQ(result.tally.get(Count::kTunnel), 0U) << "the Assembler counts it";

    const Buffer datagram = udp(1'024, 53, dns(4) + Buffer(100));
    const auto fragment = [&](unsigned begin, unsigned end) {
        return gre("0000 0800", ipv4(part(datagram, begin, end),
                                     {.more = end < datagram.size(), .offset = begin}));
    };
    EXPECT_THAT(feeder.feed(fragment(64, 1'000)), IsEmpty());
    EXPECT_THAT(feeder.feed(fragment(0, 64)), ElementsAre(4));
}

/// The outer packet was too long for its way.
TEST(Tunnels, ATunnelInFragments) {
    const Buffer payload = hex("0000 0800") + kInner;
    const auto fragment = [&](unsigned begin, unsigned end) {
        return ipv4(part(payload, begin, end),
                    {.protocol = kGre, .more = end < payload.size(), .offset = begin});
    };
    Feeder feeder;
    EXPECT_THAT(feeder.feed(fragment(0, 32)), IsEmpty());
    EXPECT_THAT(feeder.feed(fragment(32, 1'000)), ElementsAre(7));
    EXPECT_EQ(feeder.count(Count::kTunnel), 1U);
}

/// Fragments in a tunnel in fragments: the work for a packet has an end.
TEST(Tunnels, AChainOfFragmentsAndTunnelsEnds) {
    Feeder feeder;
    Buffer payload = udp(1'024, 53, dns(9));
    unsigned protocol = 17;
    for (std::uint32_t id = 1; id <= 4; ++id) {
        const auto cut = [&](size_t begin, size_t end, bool more) {
            return ipv4(part(payload, begin, end), {.protocol = protocol,
                                                    .more = more,
                                                    .offset = static_cast<unsigned>(begin),
                                                    .id = id});
        };
        EXPECT_THAT(feeder.feed(cut(0, 8, true)), IsEmpty());
        payload = cut(8, payload.size(), false);
        protocol = 4;
    }
    EXPECT_THAT(feeder.feed(ipv4(payload, {.protocol = 4})), IsEmpty());
    EXPECT_EQ(feeder.count(Count::kTunnelUnread), 1U);
}

} // namespace
} // namespace reprise::trace
