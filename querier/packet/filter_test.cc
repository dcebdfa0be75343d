// The filter of replies, run by the kernel on a pair of local sockets.
#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/trace/testing/packets.hh"
#include "querier/carrier/carrier.hh"
#include "querier/packet/frame_ring.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <linux/filter.h>
#include <sys/socket.h>

namespace reprise::querier {
namespace {

using namespace trace::test; // NOLINT: a language of its own for packets

const Servers kServers{.v4 = Endpoint::parse("198.51.100.53:53"),
                       .v6 = Endpoint::parse("[2001:db8:ffff::53]:5300")};
const Ip kFrom4{.source = "198.51.100.53", .destination = "10.1.2.3"};
const Ip kFrom6{.source = "2001:db8:ffff::53", .destination = "2001:db8::77"};

class Filter {
public:
    explicit Filter(const Servers& servers) {
        std::array<int, 2> ends{};
        check(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends.data()), "socketpair");
        in_ = FileDescriptor(ends[0]);
        out_ = FileDescriptor(ends[1]);
        auto lines = reply_filter(servers);
        const sock_fprog program{.len = static_cast<unsigned short>(lines.size()),
                                 .filter = lines.data()};
        check(setsockopt(out_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program),
              "attach");
    }

    [[nodiscard]] bool passes(const Buffer& packet) const {
        const Buffer frame = ethernet(packet);
        check(::send(in_.get(), frame.data(), frame.size(), 0), "send");
        std::array<std::uint8_t, 2048> room{};
        return ::recv(out_.get(), room.data(), room.size(), MSG_DONTWAIT) > 0;
    }

private:
    FileDescriptor in_;
    FileDescriptor out_;
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

TEST(Filter, PassesTheServersReplies) {
    const Filter filter(kServers);
    EXPECT_TRUE(filter.passes(ipv4(udp(53, 999, dns(1, true)), kFrom4)));
    EXPECT_TRUE(filter.passes(ipv4(udp(53, 999, dns(1, true)), kFrom4, hex("01010101"))));
    EXPECT_TRUE(filter.passes(ipv6(udp(5300, 999, dns(1, true)), kFrom6)));
}

TEST(Filter, PassesTheirFragments) {
    const Filter filter(kServers);
    EXPECT_TRUE(filter.passes(ipv4(udp(53, 999, dns(1)), piece(kFrom4, true, 0))));
    EXPECT_TRUE(filter.passes(ipv4(dns(1), piece(kFrom4, false, 1480))));
    EXPECT_TRUE(filter.passes(ipv6(udp(5300, 999, dns(1)), piece(kFrom6, true, 0))));
    EXPECT_TRUE(filter.passes(ipv6(dns(1), piece(kFrom6, false, 1448))));
}

TEST(Filter, LeavesOutOtherHostsAndPorts) {
    const Filter filter(kServers);
    EXPECT_FALSE(filter.passes(ipv4(udp(53, 999, dns(1)))));
    EXPECT_FALSE(filter.passes(ipv4(udp(5300, 999, dns(1)), kFrom4)));
    EXPECT_FALSE(filter.passes(ipv4(udp(999, 53, dns(1)), kFrom4)));
    EXPECT_FALSE(filter.passes(ipv6(udp(5300, 999, dns(1)))));
    EXPECT_FALSE(filter.passes(ipv6(udp(53, 999, dns(1)), kFrom6)));
    EXPECT_FALSE(filter.passes(ipv4(dns(1), piece(Ip{}, false, 1480))));
}

TEST(Filter, LeavesOutOtherProtocols) {
    const Filter filter(kServers);
    EXPECT_FALSE(filter.passes(ipv4(udp(53, 999, dns(1)), with(kFrom4, 6))));
    EXPECT_FALSE(filter.passes(ipv6(udp(5300, 999, dns(1)), with(kFrom6, 6))));
    EXPECT_FALSE(filter.passes(hex("ffffffff")));
    EXPECT_FALSE(filter.passes(hex("45")));
}

TEST(Filter, PassesErrorsAboutOurQueriesOnly) {
    const Filter filter(kServers);
    const Ip to4{.source = "10.1.2.3", .destination = "198.51.100.53"};
    const Ip to6{.source = "2001:db8::77", .destination = "2001:db8:ffff::53"};
    const Buffer ours4 = ipv4(udp(999, 53, dns(1)), to4);
    const Buffer ours6 = ipv6(udp(999, 5300, dns(1)), to6);
    const Ip router4{.source = "203.0.113.1", .destination = "10.1.2.3", .protocol = 1};
    const Ip router6{.source = "2001:db8:1::1", .destination = "2001:db8::77", .protocol = 58};
    EXPECT_TRUE(filter.passes(ipv4(icmp("03", ours4), router4)));
    EXPECT_TRUE(filter.passes(ipv6(icmp("01", ours6), router6)));
    EXPECT_FALSE(filter.passes(ipv4(icmp("0b", ours4), router4)));
    EXPECT_FALSE(filter.passes(ipv6(icmp("03", ours6), router6)));
    EXPECT_FALSE(filter.passes(ipv4(icmp("03", ipv4(udp(999, 53, dns(1)))), router4)));
    EXPECT_FALSE(filter.passes(ipv6(icmp("01", ipv6(udp(999, 5300, dns(1)))), router6)));
}

TEST(Filter, KnowsOneFamilyAlone) {
    const Buffer reply4 = ipv4(udp(53, 999, dns(1)), kFrom4);
    const Buffer reply6 = ipv6(udp(5300, 999, dns(1)), kFrom6);
    const Filter only4({.v4 = kServers.v4, .v6 = {}});
    EXPECT_TRUE(only4.passes(reply4));
    EXPECT_FALSE(only4.passes(reply6));
    const Filter only6({.v4 = {}, .v6 = kServers.v6});
    EXPECT_FALSE(only6.passes(reply4));
    EXPECT_TRUE(only6.passes(reply6));
    const Filter none({});
    EXPECT_FALSE(none.passes(reply4));
}

} // namespace
} // namespace reprise::querier
