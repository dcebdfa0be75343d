#include "core/base/bytes.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/testing/packets.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)

const Buffer kUdp = udp(1'024, 53, dns(7));

struct Result {
    Decoded decoded = Decoded::kBad;
    IpPacket ip;
};

Result decode(LinkType link, const Buffer& frame) {
    Result out;
    out.decoded = decode_packet({.link = link, .bytes = frame}, out.ip);
    return out;
}

void expect_udp(LinkType link, const Buffer& frame) {
    const Result result = decode(link, frame);
    ASSERT_EQ(result.decoded, Decoded::kIp);
    EXPECT_EQ(result.ip.protocol, kProtocolUdp);
    EXPECT_FALSE(result.ip.fragment);
    EXPECT_FALSE(result.ip.cut);
    EXPECT_TRUE(std::ranges::equal(result.ip.payload, kUdp));
    const Bytes network = network_layer({.link = link, .bytes = frame});
    ASSERT_GE(network.size(), kUdp.size());
    EXPECT_TRUE(std::ranges::equal(network, Bytes(frame).last(network.size())));
    IpPacket raw;
    ASSERT_EQ(decode_packet({.link = LinkType::kRaw, .bytes = network}, raw), Decoded::kIp);
    EXPECT_TRUE(std::ranges::equal(raw.payload, kUdp));
}

TEST(LinkLayer, EveryTypeLeadsToIp) {
    for (const Buffer& packet : {ipv4(kUdp), ipv6(kUdp)}) {
        const Buffer type = be16(packet[0] >> 4U == 6 ? 0x86ddU : 0x0800U);
        expect_udp(LinkType::kEthernet, ethernet(packet));
        expect_udp(LinkType::kRaw, packet);
        expect_udp(LinkType::kSll, hex("0000 0001 0006 0200000000010000") + type + packet);
        expect_udp(LinkType::kSll2,
                   type + hex("0000 00000002 0001 00 06 0200000000010000") + packet);
    }
}

TEST(LinkLayer, PppoeIsPassedOver) {
    const Buffer ends = hex("020000000001 020000000002");
    const auto session = [](const Buffer& packet, const char* protocol) {
        return hex("8864 1100 0001") + be16(static_cast<unsigned>(packet.size()) + 2) +
               hex(protocol) + packet;
    };
    const Buffer frame = session(ipv4(kUdp), "0021");
    expect_udp(LinkType::kEthernet, ends + frame);
    expect_udp(LinkType::kEthernet, ends + hex("8100 0064") + frame);
    expect_udp(LinkType::kEthernet, ends + session(ipv6(kUdp), "0057"));
    expect_udp(LinkType::kSll, hex("0000 0001 0006 0200000000010000") + frame);
    const Buffer control = ends + session(hex("01010004"), "c021");
    EXPECT_EQ(decode(LinkType::kEthernet, control).decoded, Decoded::kNotIp);
    EXPECT_EQ(decode(LinkType::kEthernet, ends + hex("8864 1100")).decoded, Decoded::kBad);
}

/// Labels, the last one marked, and what is behind them.
Buffer mpls(const Buffer& inside, const char* labels = "0006403f 0000713f") {
    return hex(labels) + inside;
}

TEST(LinkLayer, MplsIsPassedOver) {
    const Buffer ends = hex("020000000001 020000000002");
    for (const Buffer& packet : {ipv4(kUdp), ipv6(kUdp)}) {
        expect_udp(LinkType::kEthernet, ends + hex("8847") + mpls(packet));
        expect_udp(LinkType::kEthernet, ends + hex("8848") + mpls(packet, "0000713f"));
        expect_udp(LinkType::kEthernet, ends + hex("8100 0064 8847") + mpls(packet));
        expect_udp(LinkType::kSll, hex("0000 0001 0006 0200000000010000 8847") + mpls(packet));
        expect_udp(LinkType::kMpls, mpls(packet));
        expect_udp(LinkType::kMpls, mpls(hex("00000007") + ethernet(packet)));
        expect_udp(LinkType::kMpls, mpls(ethernet(packet, hex("8100 0064"))));
    }
    const Buffer session = hex("8864 1100 0001 0022 0281");
    expect_udp(LinkType::kEthernet, ends + session + mpls(ipv4(kUdp)));
}

TEST(LinkLayer, MplsOfOtherThings) {
    const Buffer arp = hex("020000000001 020000000002 0806") + Buffer(28);
    EXPECT_EQ(decode(LinkType::kMpls, mpls(hex("00000007") + arp)).decoded, Decoded::kNotIp);
    EXPECT_EQ(decode(LinkType::kMpls, mpls(hex("10000007"))).decoded, Decoded::kNotIp);
    EXPECT_EQ(decode(LinkType::kMpls, mpls(Buffer(40, 0xff))).decoded, Decoded::kMplsUnread);
    EXPECT_EQ(decode(LinkType::kMpls, Buffer(400)).decoded, Decoded::kMplsUnread) << "no last one";
    EXPECT_EQ(decode(LinkType::kMpls, mpls({})).decoded, Decoded::kBad);
    EXPECT_EQ(decode(LinkType::kMpls, hex("00064000 0000")).decoded, Decoded::kBad);
}

TEST(LinkLayer, LoopbackFamilyInEitherByteOrder) {
    expect_udp(LinkType::kNull, hex("02000000") + ipv4(kUdp));
    expect_udp(LinkType::kNull, hex("00000002") + ipv4(kUdp));
    for (const char* family : {"18000000", "1c000000", "1e000000", "0000001e", "0a000000"}) {
        expect_udp(LinkType::kNull, hex(family) + ipv6(kUdp));
    }
    for (const char* ether_type : {"00000800", "00080000", "08000000"}) {
        expect_udp(LinkType::kNull, hex(ether_type) + ipv4(kUdp));
    }
    expect_udp(LinkType::kNull, hex("000086dd") + ipv6(kUdp));
    EXPECT_EQ(decode(LinkType::kNull, hex("07000000") + ipv4(kUdp)).decoded, Decoded::kNotIp);
}

TEST(LinkLayer, VlanTagsOfAnyDepth) {
    expect_udp(LinkType::kEthernet, ethernet(ipv4(kUdp), hex("8100 000b")));
    expect_udp(LinkType::kEthernet, ethernet(ipv6(kUdp), hex("88a8 0001 8100 000b")));
    expect_udp(LinkType::kEthernet, ethernet(ipv4(kUdp), hex("9100 0001 88a8 0002 8100 000b")));
}

TEST(LinkLayer, PaddingIsNotPayload) {
    expect_udp(LinkType::kEthernet, ethernet(ipv4(kUdp)) + Buffer(17, 0xee));
    expect_udp(LinkType::kEthernet, ethernet(ipv6(kUdp)) + Buffer(17, 0xee));
}

TEST(LinkLayer, OtherProtocolsAreNotIp) {
    EXPECT_EQ(
        decode(LinkType::kEthernet, hex("020000000001 020000000002 0806") + Buffer(28)).decoded,
        Decoded::kNotIp);
}

TEST(LinkLayer, NumbersOfCaptureFiles) {
    for (const int number : {12, 14, 101, 228, 229}) {
        EXPECT_EQ(link_type(number), LinkType::kRaw);
    }
    EXPECT_EQ(link_type(108), LinkType::kNull);
    EXPECT_EQ(link_type(219), LinkType::kMpls);
    EXPECT_FALSE(link_type(105)) << "802.11";
}

TEST(Ipv4, OptionsAreSkipped) {
    expect_udp(LinkType::kRaw, ipv4(kUdp, {}, hex("94040000 01010101")));
}

TEST(Ipv4, TotalLengthZeroMeansAllThatWasCaptured) {
    Buffer packet = ipv4(kUdp);
    packet[2] = packet[3] = 0;
    expect_udp(LinkType::kRaw, packet);
}

TEST(Ipv4, FragmentFields) {
    const IpPacket ip =
        decode(LinkType::kRaw, ipv4(kUdp, {.more = true, .offset = 1'480, .id = 99})).ip;
    EXPECT_TRUE(ip.fragment);
    EXPECT_TRUE(ip.more);
    EXPECT_EQ(ip.offset, 1'480);
    EXPECT_EQ(ip.fragment_id, 99U);
}

TEST(Ip, SnappedPacketsAreMarkedAsCut) {
    for (const Buffer& whole : {ipv4(kUdp), ipv6(kUdp)}) {
        const Buffer cut(whole.begin(), whole.end() - 5);
        const Result result = decode(LinkType::kRaw, cut);
        EXPECT_EQ(result.decoded, Decoded::kIp);
        EXPECT_TRUE(result.ip.cut);
        EXPECT_EQ(result.ip.payload.size(), kUdp.size() - 5);
    }
}

TEST(Ip, EveryCutHeaderIsBad) {
    for (const Buffer& frame :
         {ethernet(ipv4({})), ethernet(ipv6({})), ethernet(ipv4({}), hex("8100 0001"))}) {
        for (size_t size = 0; size < frame.size(); ++size) {
            const Buffer cut(frame.begin(), frame.begin() + static_cast<int>(size));
            EXPECT_EQ(decode(LinkType::kEthernet, cut).decoded, Decoded::kBad) << size;
        }
    }
}

TEST(Ip, HeaderLongerThanThePacketIsBad) {
    Buffer packet = ipv4(kUdp);
    packet[0] = 0x44;
    EXPECT_EQ(decode(LinkType::kRaw, packet).decoded, Decoded::kBad);
    packet[0] = 0x4f;
    packet[3] = 40;
    EXPECT_EQ(decode(LinkType::kRaw, packet).decoded, Decoded::kBad);
}

TEST(Ipv6, ExtensionHeadersAreSkipped) {
    // Hop-by-hop, destination options of 16 bytes, authentication of 12 bytes (counted in other
    // units), then UDP.
    const Buffer chain = hex("3c 00 0104 00000000") + hex("33 01 0104 00000000 0104000000000000") +
                         hex("11 01 0000 00000001 00000002");
    expect_udp(
        LinkType::kRaw,
        ipv6(chain + kUdp, {.source = "2001:db8::1", .destination = "2001:db8::2", .protocol = 0}));
}

TEST(Ipv6, AtomicFragmentIsWhole) {
    const Ip fields{.source = "2001:db8::1", .destination = "2001:db8::2", .protocol = 44};
    expect_udp(LinkType::kRaw, ipv6(hex("11 00 0000 00000063") + kUdp, fields));
}

TEST(Ipv6, FragmentFieldsBehindAnExtension) {
    const Ip fields{.source = "2001:db8::1", .destination = "2001:db8::2", .protocol = 0};
    const IpPacket ip =
        decode(LinkType::kRaw,
               ipv6(hex("2c 00 0104 00000000") + hex("11 00 0009 00000063") + kUdp, fields))
            .ip;
    EXPECT_TRUE(ip.fragment);
    EXPECT_TRUE(ip.more);
    EXPECT_EQ(ip.offset, 8);
    EXPECT_EQ(ip.fragment_id, 99U);
    EXPECT_EQ(ip.protocol, kProtocolUdp);
}

TEST(Ipv6, ExtensionBeyondThePacketIsBad) {
    const Ip fields{.source = "2001:db8::1", .destination = "2001:db8::2", .protocol = 60};
    EXPECT_EQ(decode(LinkType::kRaw, ipv6(hex("11 05 0104 00000000"), fields)).decoded,
              Decoded::kBad);
    EXPECT_EQ(decode(LinkType::kRaw, ipv6(hex("11"), fields)).decoded, Decoded::kBad);
}

TEST(Udp, LengthFieldDecides) {
    Buffer datagram = udp(1, 2, Buffer(20));
    EXPECT_EQ(decode_udp(datagram + Buffer(4))->payload.size(), 20U);
    const auto cut = decode_udp(Bytes(datagram).first(18));
    EXPECT_EQ(cut->payload.size(), 10U);
    EXPECT_EQ(cut->size, 20);
    datagram[5] = 7;
    EXPECT_FALSE(decode_udp(datagram));
    EXPECT_FALSE(decode_udp(Bytes(datagram).first(7)));
}

TEST(Tcp, HeaderFieldsAndOptions) {
    Buffer segment =
        tcp({.sequence = 0xfffffff0U, .acknowledgement = 5, .flags = "SF", .payload = Buffer(12)});
    segment[12] = 0x60; // the first 4 bytes are options
    const auto decoded = decode_tcp(segment);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->sequence, 0xfffffff0U);
    EXPECT_EQ(decoded->acknowledgement, 5U);
    EXPECT_TRUE(decoded->syn && decoded->fin);
    EXPECT_FALSE(decoded->ack || decoded->rst);
    EXPECT_EQ(decoded->payload.size(), 8U);
}

TEST(Tcp, MalformedHeaders) {
    Buffer segment = tcp({});
    EXPECT_FALSE(decode_tcp(Bytes(segment).first(19)));
    segment[12] = 0x40;
    EXPECT_FALSE(decode_tcp(segment));
    segment[12] = 0x60;
    EXPECT_FALSE(decode_tcp(segment));
}

} // namespace
} // namespace reprise::trace

// NOLINTEND(bugprone-unchecked-optional-access)
