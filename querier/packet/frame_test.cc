// Frames against bytes worked out by a program that shares no code with this one.
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"
#include "core/trace/testing/packets.hh"
#include "querier/packet/route.hh"

#include <gtest/gtest.h>

#include <cstdint>

namespace reprise::querier {
namespace {

using trace::test::Buffer;
using trace::test::hex;

constexpr MacAddresses kMacs{.source = {2, 0, 0, 0, 0, 1}, .next_hop = {2, 0, 0, 0, 0, 2}};

Endpoint endpoint(const char* text) { return Endpoint::parse(text).value_or(Endpoint{}); }

Buffer frame_of(const char* server, const char* source, const Buffer& query, std::uint16_t id) {
    const FrameTemplate frames(kMacs, endpoint(server));
    Buffer out(frames.headers() + query.size());
    EXPECT_EQ(frames.write(out, endpoint(source), query, id), out.size());
    return out;
}

TEST(Frame, CarriesAnIpv4QueryOfOddSize) {
    EXPECT_EQ(frame_of("198.51.100.53:53", "192.0.2.77:40001", hex("abcd01"), 0x1234),
              hex("020000000002 020000000001 0800"
                  "4500001f 12344000 40113be4 c000024d c6336435"
                  "9c410035 000bc9dd abcd01"));
}

TEST(Frame, CarriesAnIpv6Query) {
    EXPECT_EQ(frame_of("[2001:db8:ffff::53]:5300", "[2001:db8::77]:5353", hex("abcd0102"), 7),
              hex("020000000002 020000000001 86dd"
                  "60000000 000c1140 20010db8000000000000000000000077"
                  "20010db8ffff00000000000000000053"
                  "14e914b4 000ccd2d abcd0102"));
}

TEST(Frame, NeverSaysThatItHasNoChecksum) {
    EXPECT_EQ(frame_of("10.0.0.2:53", "10.0.0.1:1000", hex("e7ba"), 0),
              hex("020000000002 020000000001 0800"
                  "4500001e 00004000 401126cd 0a000001 0a000002"
                  "03e80035 000affff e7ba"));
}

TEST(Frame, LeavesNothingOfTheFrameBefore) {
    const FrameTemplate frames(kMacs, endpoint("198.51.100.53:53"));
    Buffer reused(200, 0xff);
    frames.write(reused, endpoint("203.0.113.9:9"), Buffer(100, 0x5a), 0xffff);
    const Buffer query = hex("abcd01");
    reused.resize(frames.write(reused, endpoint("192.0.2.77:40001"), query, 0x1234));
    EXPECT_EQ(reused, frame_of("198.51.100.53:53", "192.0.2.77:40001", query, 0x1234));
}

/// A receiver's own check: everything with its checksum in place adds up to nothing.
TEST(Frame, ChecksumsHoldForTheLargestQuery) {
    const FrameTemplate frames(kMacs, endpoint("255.255.255.255:65535"));
    const Buffer query(65507, 0xff);
    Buffer out(frames.headers() + query.size());
    frames.write(out, endpoint("255.255.255.255:65535"), query, 0xffff);
    Checksum header;
    header.add(Bytes(out).subspan(14, 20));
    EXPECT_EQ(header.value(), 0);
    Checksum sum;
    sum.add(Bytes(out).subspan(26));
    sum.add(hex("0011 ffeb"));
    EXPECT_EQ(sum.value(), 0);
}

} // namespace
} // namespace reprise::querier
