#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/testing/packets.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace reprise::proxy {
namespace {

using testing::address;
using testing::Buffer;
using testing::make;
using testing::Recipe;

constexpr const char* kMap = "#reprise-map 1\n"
                             "resolver\t1\t198.19.254.1\tfd00:198:19:fe::1\n"
                             "resolver\t2\t198.19.254.2\t-\n"
                             "meta\t1\t1\t1\t198.18.128.1\tfd00:198:18::1\n"
                             "meta\t1\t2\t1\t198.18.128.2\tfd00:198:18::2\n"
                             "meta\t2\t1\t1\t198.18.128.3\t-\n"
                             "meta\t2\t2\t1\t198.18.128.4\t-\n"
                             "oqda\t198.41.0.4\t1\n"
                             "oqda\t2001:503:ba3e::2:30\t1\n"
                             "oqda\t192.5.6.30\t2\n"
                             "oqda\t2001:503:a83e::2:30\t2\n";

class RewriteTest : public ::testing::Test {
protected:
    AddressMap map_ = parse_map(kMap, "map.tsv");
    Routes resolver_ = Routes::of_resolver(map_, 1);
    Routes meta_ = Routes::of_meta(map_);

    Verdict verdict(Buffer packet) { return rewrite(packet, resolver_).verdict; }

    /// The verdict on a packet, which must be left as it was.
    Verdict refused(Buffer packet) {
        const Buffer before = packet;
        const Verdict found = rewrite(packet, resolver_).verdict;
        EXPECT_EQ(packet, before);
        return found;
    }
};

const Recipe kV6{.source = "fd00:198:19:fe::1", .destination = "2001:503:ba3e::2:30"};

Recipe with(Recipe recipe, auto change) {
    change(recipe);
    return recipe;
}

TEST_F(RewriteTest, AQueryGoesToTheMetaAddressAsIfFromTheServer) {
    Buffer packet = make(Recipe{});
    const Outcome outcome = rewrite(packet, resolver_);
    EXPECT_EQ(outcome.verdict, Verdict::kRewritten);
    EXPECT_EQ(outcome.traffic, Traffic::kDatagram);
    EXPECT_EQ(deciding_address(packet, outcome), address("198.41.0.4"));
    EXPECT_EQ(testing::source_of(packet), address("198.41.0.4"));
    EXPECT_EQ(destination_of(packet), address("198.18.128.1"));
    EXPECT_TRUE(testing::checksums_hold(packet));
}

TEST_F(RewriteTest, TheMetaAddressTellsTheResolver) {
    for (const auto& [meta, resolver] :
         {std::pair("198.18.128.3", "198.19.254.1"), std::pair("198.18.128.4", "198.19.254.2")}) {
        Buffer packet = make({.source = meta,
                              .destination = "192.5.6.30",
                              .source_port = 53,
                              .destination_port = 4'000});
        EXPECT_EQ(rewrite(packet, meta_).verdict, Verdict::kRewritten);
        EXPECT_EQ(testing::source_of(packet), address("192.5.6.30"));
        EXPECT_EQ(destination_of(packet), address(resolver));
        EXPECT_TRUE(testing::checksums_hold(packet));
    }
}

/// Query through one proxy, answer through the other: what remains is a direct exchange.
TEST_F(RewriteTest, BothSidesTogetherLookLikeADirectExchange) {
    std::mt19937 random(1);
    for (int round = 0; round < 2'000; ++round) {
        Recipe query = round % 2 == 0 ? Recipe{} : kV6;
        query.protocol = round % 4 < 2 ? 17 : 6;
        query.source_port = static_cast<std::uint16_t>(random());
        query.payload.resize(random() % 1'400);
        std::ranges::generate(query.payload, [&] { return static_cast<std::uint8_t>(random()); });
        Buffer out = make(query);
        ASSERT_EQ(rewrite(out, resolver_).verdict, Verdict::kRewritten);
        ASSERT_TRUE(testing::checksums_hold(out));

        const std::string from = destination_of(out).text();
        const std::string to = testing::source_of(out).text();
        Recipe answer = query;
        answer.source = from;
        answer.destination = to;
        answer.source_port = 53;
        answer.destination_port = query.source_port;
        Buffer back = make(answer);
        ASSERT_EQ(rewrite(back, meta_).verdict, Verdict::kRewritten);
        answer.source = query.destination;
        answer.destination = query.source;
        ASSERT_EQ(back, make(answer));
    }
}

TEST_F(RewriteTest, FragmentsGoTheSameWayAndJoinToARightDatagram) {
    const Buffer whole = make({.payload = Buffer(4'000, 0xa5)});
    std::vector<Buffer> pieces = testing::fragment_v4(whole, 1'480);
    ASSERT_EQ(pieces.size(), 3);
    int datagrams = 0;
    for (Buffer& piece : pieces) {
        const Outcome outcome = rewrite(piece, resolver_);
        EXPECT_EQ(outcome.verdict, Verdict::kRewritten);
        datagrams += outcome.traffic == Traffic::kDatagram ? 1 : 0;
    }
    EXPECT_EQ(datagrams, 1);
    const Buffer joined = testing::join_v4(pieces);
    EXPECT_EQ(destination_of(joined), address("198.18.128.1"));
    EXPECT_TRUE(testing::checksums_hold(joined));
}

TEST_F(RewriteTest, IPv6FragmentsAndExtensionHeaders) {
    // Hop-by-hop, routing without segments left, destination options: each 8 bytes of padding.
    const Buffer chain{43, 0, 1, 4, 0, 0, 0, 0, 60, 0, 2, 0, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0};
    Buffer packet = make(with(kV6, [&](Recipe& r) { r.options = chain, r.next = 0; }));
    EXPECT_EQ(rewrite(packet, resolver_).verdict, Verdict::kRewritten);
    EXPECT_TRUE(testing::checksums_hold(packet));

    // An atomic fragment (RFC 6946) is a whole packet.
    packet =
        make(with(kV6, [&](Recipe& r) { r.options = {17, 0, 0, 0, 0, 0, 0, 9}, r.next = 44; }));
    EXPECT_EQ(rewrite(packet, resolver_).verdict, Verdict::kRewritten);
    EXPECT_TRUE(testing::checksums_hold(packet));

    // A later fragment: no ports, no checksum, only addresses change.
    packet =
        make(with(kV6, [&](Recipe& r) { r.options = {17, 0, 0, 8, 0, 0, 0, 9}, r.next = 44; }));
    const Buffer before = packet;
    const Outcome outcome = rewrite(packet, resolver_);
    EXPECT_EQ(outcome.verdict, Verdict::kRewritten);
    EXPECT_EQ(outcome.traffic, Traffic::kOther);
    EXPECT_TRUE(std::equal(packet.begin() + 40, packet.end(), before.begin() + 40));
    EXPECT_EQ(destination_of(packet), address("fd00:198:18::1"));

    // One of a datagram with destination options does not even show its protocol.
    packet =
        make(with(kV6, [&](Recipe& r) { r.options = {60, 0, 0, 8, 0, 0, 0, 9}, r.next = 44; }));
    EXPECT_EQ(rewrite(packet, resolver_).verdict, Verdict::kRewritten);
    EXPECT_EQ(destination_of(packet), address("fd00:198:18::1"));
}

TEST_F(RewriteTest, NoChecksumStaysNone) {
    Buffer packet = make({.checksum = false});
    EXPECT_EQ(rewrite(packet, resolver_).verdict, Verdict::kRewritten);
    EXPECT_EQ(packet[26] | packet[27], 0);
    EXPECT_TRUE(testing::checksums_hold(packet));
    EXPECT_EQ(refused(make(with(kV6, [](Recipe& r) { r.checksum = false; }))),
              Verdict::kBadTransport);
}

/// Among all values of two payload bytes one makes the new checksum 0, which must be sent as ffff:
/// the checksum that the packet has with zeros in their place.
TEST_F(RewriteTest, AComputedZeroIsSentAsAllOnes) {
    Buffer zeros = make({.payload = {0, 0}});
    rewrite(zeros, resolver_);
    const unsigned wanted = zeros[26] * 256U + zeros[27];
    int all_ones = 0;
    for (unsigned value = wanted - 100; value != wanted + 100; ++value) {
        Buffer packet = make({.payload = {static_cast<std::uint8_t>(value >> 8U),
                                          static_cast<std::uint8_t>(value & 0xffU)}});
        ASSERT_EQ(rewrite(packet, resolver_).verdict, Verdict::kRewritten);
        ASSERT_NE(packet[26] | packet[27], 0);
        ASSERT_TRUE(testing::checksums_hold(packet));
        all_ones += (packet[26] & packet[27]) == 0xff ? 1 : 0;
    }
    EXPECT_GE(all_ones, 1);
}

TEST_F(RewriteTest, AWrongChecksumStaysWrong) {
    Buffer packet = make(Recipe{});
    packet[26] ^= 0x55;
    packet[10] ^= 0x10;
    rewrite(packet, resolver_);
    EXPECT_FALSE(testing::checksums_hold(packet));
}

TEST_F(RewriteTest, ConnectionsAreCountedByTheirFirstSegment) {
    const auto traffic = [](const Recipe& recipe, const Routes& routes) {
        Buffer packet = make(recipe);
        return rewrite(packet, routes).traffic;
    };
    Recipe segment{.protocol = 6, .tcp_flags = 0x02};
    EXPECT_EQ(traffic(segment, resolver_), Traffic::kConnection);
    segment.tcp_flags = 0x18;
    EXPECT_EQ(traffic(segment, resolver_), Traffic::kPushed);
    segment.tcp_flags = 0x10;
    EXPECT_EQ(traffic(segment, resolver_), Traffic::kOther);
    const Recipe reply{
        .source = "198.18.128.1", .protocol = 6, .source_port = 53, .tcp_flags = 0x12};
    EXPECT_EQ(traffic(reply, meta_), Traffic::kConnection);
}

TEST_F(RewriteTest, WhatDoesNotBelongHereIsNamed) {
    EXPECT_EQ(refused(make({.destination = "192.0.2.1"})), Verdict::kUnmapped);
    EXPECT_EQ(refused(make(with(kV6, [](Recipe& r) { r.destination = "2001:503:a83e::2:30"; }))),
              Verdict::kUnmapped); // its slot has no IPv6 address
    EXPECT_EQ(refused(make({.destination_port = 443})), Verdict::kForeign);
    EXPECT_EQ(refused(make({.source_port = 53, .destination_port = 4'000})), Verdict::kForeign);
    EXPECT_EQ(refused(make({.source = "198.19.254.2"})), Verdict::kWrongSource);
    Buffer echo = make(Recipe{});
    echo[9] = 1; // ICMP
    EXPECT_EQ(refused(echo), Verdict::kForeign);
    EXPECT_EQ(refused(make(with(kV6, [](Recipe& r) { r.destination = "ff02::2"; }))),
              Verdict::kLinkLocal);
}

TEST_F(RewriteTest, TheAddressOfAnUnmappedPacketIsTold) {
    Buffer query = make({.destination = "192.0.2.1"});
    EXPECT_EQ(deciding_address(query, rewrite(query, resolver_)), address("192.0.2.1"));
    Buffer answer = make({.source = "198.18.128.99", .source_port = 53});
    EXPECT_EQ(deciding_address(answer, rewrite(answer, meta_)), address("198.18.128.99"));
    Buffer any = make({.destination = "192.0.2.1"});
    const Outcome passed = rewrite(any, Routes());
    EXPECT_EQ(passed.verdict, Verdict::kPassed);
    EXPECT_EQ(deciding_address(any, passed), address("192.0.2.1"));
}

TEST_F(RewriteTest, EveryTruncationIsShortOrOfBadLength) {
    for (const Recipe& recipe : {Recipe{}, kV6, Recipe{.protocol = 6}}) {
        const Buffer whole = make(recipe);
        for (size_t size = 0; size < whole.size(); ++size) {
            const Verdict found =
                refused(Buffer(whole.begin(), whole.begin() + static_cast<long>(size)));
            EXPECT_TRUE(found == Verdict::kShort || found == Verdict::kBadLength) << size;
        }
    }
}

/// Sets one byte of a good packet.
Buffer broken(const Recipe& recipe, size_t at, unsigned value) {
    Buffer packet = make(recipe);
    packet[at] = static_cast<std::uint8_t>(value);
    return packet;
}

TEST_F(RewriteTest, EachBadFieldHasItsVerdict) {
    EXPECT_EQ(refused(broken({}, 0, 0x55)), Verdict::kBadVersion);
    EXPECT_EQ(refused(broken({}, 0, 0x44)), Verdict::kBadLength);
    EXPECT_EQ(refused(broken({}, 0, 0x4f)), Verdict::kBadLength);
    EXPECT_EQ(refused(broken({}, 3, 0)), Verdict::kBadLength);
    EXPECT_EQ(refused(broken({}, 6, 0x20)), Verdict::kBadFragment); // 13 bytes, and more to come
    EXPECT_EQ(refused(broken(Recipe{.payload = Buffer(60'000)}, 6, 0x1f)), Verdict::kBadFragment);
    EXPECT_EQ(refused(broken({}, 25, 7)), Verdict::kBadTransport);
    EXPECT_EQ(refused(broken({}, 25, 200)), Verdict::kBadTransport);
    EXPECT_EQ(refused(broken({.protocol = 6}, 32, 0x40)), Verdict::kBadTransport);
    EXPECT_EQ(refused(broken({.protocol = 6}, 32, 0xf0)), Verdict::kBadTransport);
    EXPECT_EQ(refused(broken(kV6, 5, 0)), Verdict::kBadLength);
}

TEST_F(RewriteTest, IPv4Options) {
    const auto options = [](const Buffer& bytes) { return make({.options = bytes}); };
    Buffer fine = options({1, 1, 148, 4, 0, 0, 0, 0}); // router alert
    EXPECT_EQ(rewrite(fine, resolver_).verdict, Verdict::kRewritten);
    EXPECT_TRUE(testing::checksums_hold(fine));
    EXPECT_EQ(refused(options({148, 1, 0, 0})), Verdict::kBadOption);
    EXPECT_EQ(refused(options({148, 5, 0, 0})), Verdict::kBadOption);
    EXPECT_EQ(refused(options({1, 1, 1, 148})), Verdict::kBadOption);
    EXPECT_EQ(refused(options({131, 7, 4, 1, 2, 3, 4, 0})), Verdict::kBadOption);
}

TEST_F(RewriteTest, IPv6ExtensionHeadersThatDoNotFit) {
    const auto chain = [](std::uint8_t next, const Buffer& bytes) {
        return make(with(kV6, [&](Recipe& r) { r.options = bytes, r.next = next; }));
    };
    EXPECT_EQ(refused(chain(60, {17, 200, 0, 0, 0, 0, 0, 0})), Verdict::kBadExtension);
    EXPECT_EQ(refused(chain(43, {17, 0, 2, 1, 0, 0, 0, 0})), Verdict::kBadExtension);
    EXPECT_EQ(refused(chain(60, {0, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0})),
              Verdict::kBadExtension); // hop-by-hop is only ever first
    EXPECT_EQ(refused(chain(44, {44, 0, 0, 0, 0, 0, 0, 1, 17, 0, 0, 0, 0, 0, 0, 2})),
              Verdict::kBadFragment);
    EXPECT_EQ(refused(chain(44, {17, 0, 0, 1, 0, 0, 0, 1})), Verdict::kBadFragment);
    EXPECT_EQ(refused(chain(44, {17, 0, 0xff, 0xf8, 0, 0, 0, 1})), Verdict::kBadFragment);
    Buffer endless;
    for (int i = 0; i < 9; ++i) {
        endless.insert(endless.end(), {60, 0, 0, 0, 0, 0, 0, 0});
    }
    EXPECT_EQ(refused(chain(60, endless)), Verdict::kBadExtension);
    EXPECT_EQ(refused(chain(59, {0, 0, 0, 0, 0, 0, 0, 0})), Verdict::kForeign); // no next header
}

} // namespace
} // namespace reprise::proxy
