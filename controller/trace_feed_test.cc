#include "controller/options.hh"
#include "controller/testing/tiny_trace.hh"
#include "controller/trace_feed.hh"
#include "core/clock.hh"
#include "core/query.hh"

#include <gtest/gtest.h>

namespace reprise::controller {
namespace {

using testing::dns;
using testing::ipv4;
using testing::ipv6;
using testing::udp;

class TraceFeedTest : public testing::TinyTrace {};

TEST_F(TraceFeedTest, NumbersEveryQueryAndSaysWhyOneIsSkipped) {
    const Servers v4_only = parse_servers({"198.18.0.53"}, 53);
    write({ipv4(1, udp(dns(0x0100), 1000, 53)), ipv4(2, udp(dns(0x2800), 1000, 53)),
           ipv6(udp(dns(0), 1000, 53)), ipv4(1, udp(dns(0x8400), 53, 1000)),
           ipv4(3, udp(dns(0), 1000, 53))});
    TraceFeed feed(options_, v4_only);
    Query query;
    ASSERT_TRUE(feed.next(query));
    EXPECT_EQ(query.sequence, 0U);
    EXPECT_EQ(query.source_id, 0U);
    EXPECT_EQ(query.trace_time, 1'000'000'000 * kSecond);
    ASSERT_TRUE(feed.next(query));
    EXPECT_EQ(query.sequence, 3U);
    EXPECT_EQ(query.source_id, 1U);
    EXPECT_EQ(query.source.address.text(), "192.0.2.3");
    EXPECT_FALSE(feed.next(query));
    EXPECT_EQ(feed.read(), 4U);
    EXPECT_EQ(feed.responses(), 1U);
    EXPECT_EQ(feed.skipped().at("opcode"), 1U);
    EXPECT_EQ(feed.skipped().at("no_ipv6_server"), 1U);
    feed.flush_sources();
    EXPECT_EQ(read_file(folder_ + "/sources.csv"), "id,address\n0,192.0.2.1\n1,192.0.2.3\n");
}

TEST_F(TraceFeedTest, AllOpcodesAreHandedOutWhenAsked) {
    options_.all_opcodes = true;
    write({ipv4(2, udp(dns(0x2800), 1000, 53)), ipv6(udp(dns(0x2000), 1000, 53))});
    TraceFeed feed(options_, parse_servers({"198.18.0.53", "fd00::53"}, 53));
    Query query;
    EXPECT_TRUE(feed.next(query));
    EXPECT_TRUE(feed.next(query));
    EXPECT_FALSE(feed.next(query));
    EXPECT_TRUE(feed.skipped().empty());
}

} // namespace
} // namespace reprise::controller
