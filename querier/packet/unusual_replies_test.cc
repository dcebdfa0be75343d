#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/trace/testing/packets.hh"
#include "querier/carrier/carrier.hh"
#include "querier/packet/unusual_replies.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace reprise::querier {
namespace {

using namespace trace::test; // NOLINT: a language of its own for packets
using Kind = UnusualReplies::Kind;

const Servers kServers{.v4 = Endpoint::parse("198.51.100.53:53"),
                       .v6 = Endpoint::parse("[2001:db8:ffff::53]:5300")};
const Ip kFrom4{.source = "198.51.100.53", .destination = "10.1.2.3"};
const Ip kFrom6{.source = "2001:db8:ffff::53", .destination = "2001:db8::77"};

class UnusualRepliesTest : public ::testing::Test {
protected:
    UnusualReplies::Result read(const Buffer& packet, Nanoseconds time = kSecond) {
        frame_ = ethernet(packet);
        return unusual_.read(frame_, time);
    }

    /// The pieces of a datagram cut at `at`, a multiple of 8.
    static Buffer part(const Buffer& datagram, size_t at, bool first, Ip fields, bool six) {
        fields.more = first;
        fields.offset = first ? 0 : static_cast<unsigned>(at);
        const auto cut = datagram.begin() + static_cast<std::ptrdiff_t>(at);
        const Buffer bytes = first ? Buffer(datagram.begin(), cut) : Buffer(cut, datagram.end());
        return six ? ipv6(bytes, fields) : ipv4(bytes, fields);
    }

    UnusualReplies unusual_{kServers};
    Buffer frame_;
};

TEST_F(UnusualRepliesTest, ReadsWhatHasOptions) {
    const auto result = read(ipv4(udp(53, 999, dns(7, true)), kFrom4, hex("01010101")));
    ASSERT_EQ(result.kind, Kind::kMessage);
    EXPECT_EQ(result.destination.text(), "10.1.2.3:999");
    EXPECT_EQ(Buffer(result.reply.bytes.begin(), result.reply.bytes.end()), dns(7, true));
    EXPECT_EQ(result.reply.size, dns(7, true).size());
    EXPECT_EQ(result.reply.received, kSecond);
}

TEST_F(UnusualRepliesTest, PutsFragmentsOfBothFamiliesTogether) {
    const Buffer message(3000, 0x5a);
    for (const bool six : {false, true}) {
        const Buffer datagram = udp(six ? 5300 : 53, 999, message);
        const Ip& from = six ? kFrom6 : kFrom4;
        EXPECT_EQ(read(part(datagram, 1400, false, from, six)).kind, Kind::kPending);
        const auto result = read(part(datagram, 1400, true, from, six), 2 * kSecond);
        ASSERT_EQ(result.kind, Kind::kMessage);
        EXPECT_EQ(result.reply.size, 3000U);
        EXPECT_EQ(result.reply.received, 2 * kSecond);
        EXPECT_EQ(result.destination.text(), six ? "[2001:db8::77]:999" : "10.1.2.3:999");
    }
}

TEST_F(UnusualRepliesTest, RefusesFragmentsOfAnotherPort) {
    const Buffer datagram = udp(54, 999, Buffer(3000, 1));
    read(part(datagram, 1400, true, kFrom4, false));
    EXPECT_EQ(read(part(datagram, 1400, false, kFrom4, false)).kind, Kind::kBad);
}

/// Datagrams that are given up because their fragments contradict each other, without end.
TEST_F(UnusualRepliesTest, MemoryIsBoundedWhateverFragmentsSay) {
    constexpr size_t kMost = 65'536;
    UnusualReplies odd(kServers, kMost);
    Ip from = kFrom4;
    from.more = true;
    for (from.id = 0; from.id < 1'000; ++from.id) {
        for (const unsigned offset : {0U, 8U}) {
            from.offset = offset;
            frame_ = ethernet(ipv4(Buffer(16, 1), from));
            odd.read(frame_, kSecond);
        }
    }
    EXPECT_LE(odd.fragment_memory(), kMost);
}

TEST_F(UnusualRepliesTest, KnowsErrorsFromReplies) {
    Ip from = kFrom4;
    from.protocol = 1;
    EXPECT_EQ(read(ipv4(hex("0303 0000 00000000"), from)).kind, Kind::kUnreachable);
}

TEST_F(UnusualRepliesTest, CallsTheMalformedBad) {
    EXPECT_EQ(read(hex("40")).kind, Kind::kBad);
    EXPECT_EQ(read(ipv4(hex("0035"), kFrom4)).kind, Kind::kBad);
    EXPECT_EQ(read(ipv4(hex("0035 03e7 ffff 0000 00"), kFrom4)).kind, Kind::kBad);
    EXPECT_EQ(read(ipv4(udp(53, 999, dns(1)))).kind, Kind::kBad);
    Buffer cut = ipv4(udp(53, 999, dns(1)), kFrom4);
    cut.pop_back();
    EXPECT_EQ(read(cut).kind, Kind::kBad);
}

} // namespace
} // namespace reprise::querier
