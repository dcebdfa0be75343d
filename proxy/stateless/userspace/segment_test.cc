#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/stateless/userspace/segment.hh"
#include "proxy/testing/packets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::proxy::stateless {
namespace {

using proxy::testing::address;
using proxy::testing::Buffer;
using proxy::testing::checksums_hold;
using proxy::testing::make;
using proxy::testing::Recipe;
using ::testing::ElementsAreArray;

Recipe syn() {
    return {.source = "192.0.2.1",
            .destination = "192.0.2.53",
            .protocol = 6,
            .payload = {},
            .tcp_flags = kSyn,
            .seq = 0xfffffff0,
            .window = 64'240,
            .tcp_options = {2, 4, 0x05, 0xb4, 1, 3, 3, 7}};
}

Recipe data() {
    Recipe recipe = syn();
    recipe.tcp_flags = kAck | kPush;
    recipe.ack = 7;
    recipe.payload = {0, 1, 9};
    recipe.tcp_options = {};
    return recipe;
}

/// Of a good packet.
Segment segment_of(Bytes packet) {
    const auto found = read_segment(packet);
    EXPECT_TRUE(found);
    return found.value_or(Segment{});
}

TEST(ReadSegment, FindsEveryField) {
    const Buffer packet = make(syn());
    const Segment segment = segment_of(packet);
    EXPECT_EQ(segment.connection.client, (Endpoint{address("192.0.2.1"), 4'000}));
    EXPECT_EQ(segment.connection.server, (Endpoint{address("192.0.2.53"), 53}));
    EXPECT_EQ(segment.seq, 0xfffffff0U);
    EXPECT_EQ(segment.window, 64'240);
    EXPECT_EQ(segment.mss, 1'460);
    EXPECT_TRUE(segment.has(kSyn));
    EXPECT_FALSE(segment.has(kAck));
    EXPECT_TRUE(segment.data.empty());
    EXPECT_EQ(segment.end(), 0xfffffff1U);
}

TEST(ReadSegment, TakesIpv6AndData) {
    Recipe recipe = data();
    recipe.source = "2001:db8::1";
    recipe.destination = "2001:db8::53";
    const Buffer packet = make(recipe);
    const Segment segment = segment_of(packet);
    EXPECT_EQ(segment.connection.server.address, address("2001:db8::53"));
    EXPECT_EQ(segment.ack, 7U);
    EXPECT_EQ(segment.mss, 0);
    EXPECT_THAT(segment.data, ElementsAreArray(recipe.payload));
    EXPECT_EQ(segment.end(), 0xfffffff3U);
}

TEST(ReadSegment, RefusesWhatContradictsItself) {
    const Buffer good = make(data());
    for (size_t at = 0; at < good.size(); ++at) {
        if (at == 1 || at == 4 || at == 5 || at == 8 || at == 10 || at == 11) {
            continue; // fields of IP that TCP's checksum does not cover
        }
        Buffer packet = good;
        packet[at] ^= 0x21;
        EXPECT_FALSE(read_segment(packet)) << at;
    }
    for (size_t size = 0; size < good.size(); ++size) {
        EXPECT_FALSE(read_segment(Bytes(good).first(size))) << size;
    }
}

TEST(ReadSegment, RefusesImpossibleFlags) {
    for (const unsigned flags :
         {0U, 0U | kSyn | kAck, 0U | kSyn | kFin, 0U | kSyn | kRst, 0U | kFin, 0U | kPush}) {
        Recipe recipe = syn();
        recipe.tcp_flags = static_cast<std::uint8_t>(flags);
        EXPECT_FALSE(read_segment(make(recipe))) << flags;
    }
    Recipe recipe = syn();
    recipe.tcp_flags = kRst;
    EXPECT_TRUE(read_segment(make(recipe)));
}

TEST(ReadSegment, RefusesOtherProtocolsAndFragments) {
    Recipe udp = syn();
    udp.protocol = 17;
    EXPECT_FALSE(read_segment(make(udp)));
    EXPECT_EQ(protocol_of(make(udp)), kUdp);
    Recipe large = data();
    large.payload = Buffer(100);
    EXPECT_EQ(protocol_of(make(large)), kTcp);
    for (const Buffer& fragment : proxy::testing::fragment_v4(make(large), 48)) {
        EXPECT_FALSE(read_segment(fragment));
    }
}

TEST(ReadSegment, OptionsCannotOverrun) {
    const Buffer good{2, 4, 5, 180};
    Recipe recipe = syn();
    for (const Buffer& options :
         {good, {1, 1, 1, 2}, {2, 0, 0, 0}, {0, 2, 4, 5}, {8, 40, 0, 0}, {3, 1, 2, 4}}) {
        recipe.tcp_options = options;
        const Segment segment = segment_of(make(recipe));
        EXPECT_EQ(segment.mss, options == good ? 1'460 : 0);
    }
}

Reply reply(const char* client, const char* server) {
    return {.connection = {.client = {.address = address(client), .port = 4'000},
                           .server = {.address = address(server), .port = 53}},
            .seq = 100,
            .ack = 200,
            .flags = kAck | kPush,
            .mss = 0,
            .data = {}};
}

TEST(WriteSegment, WritesWhatTheReportAsksFor) {
    const Buffer data{1, 2, 3};
    Reply one = reply("192.0.2.1", "192.0.2.53");
    one.data = data;
    std::vector<std::uint8_t> out(kMostHeaders + data.size());
    const size_t size = write_segment(out, one, 0x4711);
    ASSERT_EQ(size, 43U);
    const Bytes packet = Bytes(out).first(size);
    EXPECT_TRUE(checksums_hold(packet));
    EXPECT_EQ(load16(&packet[4]), 0x4711);
    EXPECT_EQ(load16(&packet[6]), 0); // may be fragmented
    EXPECT_EQ(packet[8], 255);
    const Segment read = segment_of(packet);
    EXPECT_EQ(read.connection.client, one.connection.server);
    EXPECT_EQ(read.connection.server, one.connection.client);
    EXPECT_EQ(read.seq, 100U);
    EXPECT_EQ(read.ack, 200U);
    EXPECT_EQ(read.window, 65'535);
    EXPECT_THAT(read.data, ElementsAreArray(data));
}

TEST(WriteSegment, WritesIpv6AndTheMssOption) {
    Reply one = reply("2001:db8::1", "2001:db8::53");
    one.mss = 1'440;
    one.flags = kAck | kFin;
    std::vector<std::uint8_t> out(kMostHeaders, 0xff);
    const size_t size = write_segment(out, one, 0);
    ASSERT_EQ(size, kMostHeaders);
    EXPECT_TRUE(checksums_hold(out));
    EXPECT_EQ(out[7], 255);
    const Segment read = segment_of(out);
    EXPECT_EQ(read.mss, 1'440);
    EXPECT_TRUE(read.has(kFin));
}

} // namespace
} // namespace reprise::proxy::stateless
