// The XDP program, run by the kernel on single frames.
#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/trace/testing/packets.hh"
#include "querier/packet/receive.h"
#include "querier/packet/xdp.hh"

#include <gtest/gtest.h>

#include <bpf/bpf.h>
#include <cstdint>
#include <linux/bpf.h>
#include <memory>
#include <system_error>

namespace reprise::querier {
namespace {

using namespace trace::test; // NOLINT: a language of its own for packets

const Servers kServers{.v4 = Endpoint::parse("198.51.100.53:53"),
                       .v6 = Endpoint::parse("[2001:db8:ffff::53]:5300")};
const Ip kFrom4{.source = "198.51.100.53", .destination = "10.1.2.3"};
const Ip kFrom6{.source = "2001:db8:ffff::53", .destination = "2001:db8::77"};

/// What becomes of a frame.
enum class Way : std::uint8_t {
    kOther, ///< it passes, and the querier hears nothing of it
    kPlain, ///< the querier gets its message's beginning, the stack nothing
    kWhole, ///< the querier gets the frame, the stack nothing
    kBoth,  ///< both get it
};

class ReceiveTest : public ::testing::Test {
protected:
    void SetUp() override { load(kServers, false); }

    void load(const Servers& servers, bool whole) {
        try {
            receiver_ = std::make_unique<XdpReceiver>(servers, 64, whole);
        } catch (const std::system_error& error) {
            GTEST_SKIP() << error.what();
        }
    }

    Way way(const Buffer& packet) {
        const Buffer frame = ethernet(packet);
        bpf_test_run_opts options{};
        options.sz = sizeof options;
        options.data_in = frame.data();
        options.data_size_in = static_cast<std::uint32_t>(frame.size());
        options.repeat = 1;
        check(bpf_prog_test_run_opts(receiver_->program(), &options), "run the program");
        Way found = Way::kOther;
        const auto take = [&](const ReplyHead& head) {
            const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&head + 1);
            found = head.family != 0 ? Way::kPlain : head.passed != 0 ? Way::kBoth : Way::kWhole;
            EXPECT_GT(head.time, 0U);
            EXPECT_TRUE(head.family != 0 || Buffer(bytes, bytes + head.size) == frame);
        };
        EXPECT_LE(receiver_->drain(2, take), 1U);
        EXPECT_EQ(options.retval == XDP_PASS, found == Way::kOther || found == Way::kBoth);
        return found;
    }

private:
    std::unique_ptr<XdpReceiver> receiver_;
};

Ip with(Ip fields, unsigned protocol) {
    fields.protocol = protocol;
    return fields;
}

Ip piece(Ip fields, bool more, unsigned offset) {
    fields.more = more;
    fields.offset = offset;
    return fields;
}

/// An ICMP error of `type` about a packet.
Buffer icmp(const char* type, const Buffer& about) {
    return hex(type) + hex("03 0000 00000000") + about;
}

TEST_F(ReceiveTest, TakesTheServersReplies) {
    EXPECT_EQ(way(ipv4(udp(53, 999, dns(1, true)), kFrom4)), Way::kPlain);
    EXPECT_EQ(way(ipv6(udp(5300, 999, dns(1, true)), kFrom6)), Way::kPlain);
    EXPECT_EQ(way(ipv4(udp(53, 999, dns(1, true)), kFrom4, hex("01010101"))), Way::kBoth);
    EXPECT_EQ(way(ipv4(udp(53, 999, Buffer(11)), kFrom4)), Way::kBoth) << "no DNS header";
    EXPECT_EQ(way(ipv4(hex("0035 03e7 0100 0000 00"), kFrom4)), Way::kBoth) << "a wrong length";
}

TEST_F(ReceiveTest, GivesRepliesWhole) {
    load(kServers, true);
    EXPECT_EQ(way(ipv4(udp(53, 999, dns(1, true)), kFrom4)), Way::kWhole);
    EXPECT_EQ(way(ipv6(udp(5300, 999, dns(1, true)), kFrom6)), Way::kWhole);
    EXPECT_EQ(way(ipv4(udp(53, 999, dns(1, true)), kFrom4, hex("01010101"))), Way::kBoth);
    EXPECT_EQ(way(ipv4(udp(53, 999, dns(1)))), Way::kOther);
}

TEST_F(ReceiveTest, TakesTheirFragments) {
    EXPECT_EQ(way(ipv4(udp(53, 999, dns(1)), piece(kFrom4, true, 0))), Way::kBoth);
    EXPECT_EQ(way(ipv4(dns(1), piece(kFrom4, false, 1480))), Way::kBoth);
    EXPECT_EQ(way(ipv6(udp(5300, 999, dns(1)), piece(kFrom6, true, 0))), Way::kBoth);
    EXPECT_EQ(way(ipv6(dns(1), piece(kFrom6, false, 1448))), Way::kBoth);
}

TEST_F(ReceiveTest, LeavesOutOtherHostsAndPorts) {
    EXPECT_EQ(way(ipv4(udp(53, 999, dns(1)))), Way::kOther);
    EXPECT_EQ(way(ipv4(udp(5300, 999, dns(1)), kFrom4)), Way::kOther);
    EXPECT_EQ(way(ipv4(udp(999, 53, dns(1)), kFrom4)), Way::kOther);
    EXPECT_EQ(way(ipv6(udp(5300, 999, dns(1)))), Way::kOther);
    EXPECT_EQ(way(ipv6(udp(53, 999, dns(1)), kFrom6)), Way::kOther);
    EXPECT_EQ(way(ipv4(dns(1), piece(Ip{}, false, 1480))), Way::kOther);
}

TEST_F(ReceiveTest, LeavesOutOtherProtocols) {
    EXPECT_EQ(way(ipv4(udp(53, 999, dns(1)), with(kFrom4, 6))), Way::kOther);
    EXPECT_EQ(way(ipv6(udp(5300, 999, dns(1)), with(kFrom6, 6))), Way::kOther);
    EXPECT_EQ(way(hex("ffffffff")), Way::kOther);
    EXPECT_EQ(way(hex("45")), Way::kOther);
}

TEST_F(ReceiveTest, TakesErrorsAboutOurQueriesOnly) {
    const Ip to4{.source = "10.1.2.3", .destination = "198.51.100.53"};
    const Ip to6{.source = "2001:db8::77", .destination = "2001:db8:ffff::53"};
    const Buffer ours4 = ipv4(udp(999, 53, dns(1)), to4);
    const Buffer ours6 = ipv6(udp(999, 5300, dns(1)), to6);
    const Ip router4{.source = "203.0.113.1", .destination = "10.1.2.3", .protocol = 1};
    const Ip router6{.source = "2001:db8:1::1", .destination = "2001:db8::77", .protocol = 58};
    EXPECT_EQ(way(ipv4(icmp("03", ours4), router4)), Way::kBoth);
    EXPECT_EQ(way(ipv6(icmp("01", ours6), router6)), Way::kBoth);
    EXPECT_EQ(way(ipv4(icmp("0b", ours4), router4)), Way::kOther);
    EXPECT_EQ(way(ipv6(icmp("03", ours6), router6)), Way::kOther);
    EXPECT_EQ(way(ipv4(icmp("03", ipv4(udp(999, 53, dns(1)))), router4)), Way::kOther);
    EXPECT_EQ(way(ipv6(icmp("01", ipv6(udp(999, 5300, dns(1)))), router6)), Way::kOther);
}

TEST_F(ReceiveTest, KnowsOneFamilyAlone) {
    const Buffer reply4 = ipv4(udp(53, 999, dns(1, true)), kFrom4);
    const Buffer reply6 = ipv6(udp(5300, 999, dns(1, true)), kFrom6);
    load({.v4 = kServers.v4, .v6 = {}}, false);
    EXPECT_EQ(way(reply4), Way::kPlain);
    EXPECT_EQ(way(reply6), Way::kOther);
    load({.v4 = {}, .v6 = kServers.v6}, false);
    EXPECT_EQ(way(reply4), Way::kOther);
    EXPECT_EQ(way(reply6), Way::kPlain);
}

} // namespace
} // namespace reprise::querier
