#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/tun/link_sender.hh"
#include "proxy/tun/tun.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::proxy {
namespace {

TEST(MtuKeeperTest, DevicesKeepIpv6AndTheirOwnLimits) {
    EXPECT_EQ(device_mtu(1'500, true), 1'500);
    EXPECT_EQ(device_mtu(1'200, true), 1'280);
    EXPECT_EQ(device_mtu(1'200, false), 1'200);
    EXPECT_EQ(device_mtu(65'536, true), 65'535); // the loopback interface
    EXPECT_EQ(device_mtu(0, false), 68);
}

TEST(FlowsTest, EachDestinationWithAnExampleOfItsPackets) {
    const AddressMap map = parse_map("#reprise-map 1\nresolver\t1\t192.0.2.9\tfd00::9\n"
                                     "meta\t1\t1\t1\t192.0.2.1\tfd00::1\n"
                                     "meta\t2\t1\t1\t192.0.2.2\tfd00::2\n"
                                     "meta\t2\t2\t1\t192.0.2.3\tfd00::3\n"
                                     "oqda\t198.41.0.4\t1\noqda\t2001:db8::2\t2\n"
                                     "oqda\t199.9.14.201\t2\n",
                                     "map.tsv");
    const auto queries = flows(map, Side::kResolver, 1);
    ASSERT_EQ(queries.size(), 3); // nothing has an IPv6 address of slot 1
    EXPECT_EQ(queries[0].source.text(), "198.41.0.4");
    EXPECT_EQ(queries[0].destination.text(), "192.0.2.1");
    EXPECT_EQ(queries[0].destination_port, 53);
    EXPECT_EQ(queries[2].source.text(), "2001:db8::2");
    EXPECT_EQ(queries[2].destination.text(), "fd00::2");
    const auto answers = flows(map, Side::kMeta, 1);
    ASSERT_EQ(answers.size(), 2);
    EXPECT_EQ(answers[1].destination.text(), "fd00::9");
    EXPECT_EQ(answers[1].source.text(), "2001:db8::2");
    EXPECT_EQ(answers[1].source_port, 53);
    EXPECT_TRUE(flows(map, Side::kNone, 1).empty());
}

} // namespace
} // namespace reprise::proxy
