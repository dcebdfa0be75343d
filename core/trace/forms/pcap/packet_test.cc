#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::trace {
namespace {

const std::vector<std::uint8_t> kPayload{0xde, 0xad, 0xbe, 0xef, 0x01};

Endpoint endpoint(const char* address, std::uint16_t port) {
    return {*IpAddress::parse(address), port};
}

/// Sum over the pseudo-header and the transport part as received: 0 where the checksum is right.
std::uint16_t check_transport(const std::vector<std::uint8_t>& packet) {
    const bool v4 = packet[0] >> 4U == 4;
    const size_t header = v4 ? 20 : 40;
    Checksum sum;
    sum.add(v4 ? Bytes(packet).subspan(12, 8) : Bytes(packet).subspan(8, 32));
    sum.add(std::uint16_t{v4 ? packet[9] : packet[6]});
    sum.add(static_cast<std::uint16_t>(packet.size() - header));
    sum.add(Bytes(packet).subspan(header));
    return sum.value();
}

TEST(Packet, UdpOverIpv4) {
    std::vector<std::uint8_t> packet;
    build_udp(packet, endpoint("198.18.0.1", 4000), endpoint("192.0.2.53", 53), kPayload);
    ASSERT_EQ(packet.size(), 20U + 8 + 5);
    Checksum header;
    header.add(Bytes(packet).first(20));
    EXPECT_EQ(header.value(), 0);
    EXPECT_EQ(check_transport(packet), 0);
    EXPECT_EQ(packet[3], packet.size());
    EXPECT_EQ(std::vector(packet.end() - 5, packet.end()), kPayload);
}

TEST(Packet, UdpOverIpv6) {
    std::vector<std::uint8_t> packet;
    build_udp(packet, endpoint("2001:db8::1", 4000), endpoint("2001:db8::53", 53), kPayload);
    ASSERT_EQ(packet.size(), 40U + 8 + 5);
    EXPECT_EQ(packet[5], 13) << "payload length";
    EXPECT_EQ(check_transport(packet), 0);
}

// RFC 768: a sum of 0 goes on the wire as all ones, since 0 means that there is none.
TEST(Packet, UdpChecksumIsNeverZero) {
    std::vector<std::uint8_t> packet;
    unsigned all_ones = 0;
    for (unsigned i = 0; i < 0x10000; ++i) {
        const std::vector<std::uint8_t> payload{static_cast<std::uint8_t>(i >> 8U),
                                                static_cast<std::uint8_t>(i)};
        build_udp(packet, endpoint("198.18.0.1", 4000), endpoint("192.0.2.53", 53), payload);
        ASSERT_FALSE(packet[26] == 0 && packet[27] == 0);
        all_ones += packet[26] == 0xff && packet[27] == 0xff ? 1U : 0U;
    }
    EXPECT_GE(all_ones, 1U);
}

TEST(Packet, TcpSynHasItsOptionAndData) {
    std::vector<std::uint8_t> packet;
    build_tcp(packet,
              {endpoint("198.18.0.1", 4000), endpoint("192.0.2.53", 53), 7, 0, kTcpSyn, {}});
    EXPECT_EQ(packet.size(), 20U + 24);
    EXPECT_EQ(check_transport(packet), 0);
    build_tcp(packet, {endpoint("2001:db8::1", 4000), endpoint("2001:db8::53", 53), 7, 9,
                       kTcpPush | kTcpAck, kPayload});
    EXPECT_EQ(packet.size(), 40U + 20 + 5);
    EXPECT_EQ(check_transport(packet), 0);
}

TEST(Packet, PayloadHasALimit) {
    std::vector<std::uint8_t> packet;
    const std::vector<std::uint8_t> most(65'535 - 20 - 8);
    build_udp(packet, endpoint("198.18.0.1", 1), endpoint("192.0.2.53", 53), most);
    EXPECT_EQ(check_transport(packet), 0);
    const std::vector<std::uint8_t> more(most.size() + 1);
    EXPECT_THROW(build_udp(packet, endpoint("198.18.0.1", 1), endpoint("192.0.2.53", 53), more),
                 Error);
}

TEST(Packet, HasAPlaceInACapture) {
    std::string out;
    append_packet(out, 3 * kSecond + 7, kPayload, 2);
    EXPECT_EQ(out.substr(0, 16), std::string("\3\0\0\0\7\0\0\0\5\0\0\0\7\0\0\0", 16));
    EXPECT_EQ(out.size(), 16U + 5);
    append_packet(out, 0xffffffff * kSecond + 999'999'999, kPayload);
    EXPECT_THROW(append_packet(out, -1, kPayload), Error);
    EXPECT_THROW(append_packet(out, 0x100000000 * kSecond, kPayload), Error);
}

} // namespace
} // namespace reprise::trace

// NOLINTEND(bugprone-unchecked-optional-access)
