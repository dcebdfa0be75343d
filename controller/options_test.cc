#include "controller/options.hh"
#include "core/error.hh"

#include <gtest/gtest.h>

namespace reprise::controller {
namespace {

TEST(Options, PeersWithAndWithoutNames) {
    const auto peers = parse_peers({"client1=192.0.2.1:4853", "[2001:db8::1]:4853"});
    ASSERT_EQ(peers.size(), 2U);
    EXPECT_EQ(peers[0].name, "client1");
    EXPECT_EQ(peers[0].endpoint.text(), "192.0.2.1:4853");
    EXPECT_EQ(peers[1].name, "");
    EXPECT_EQ(peers[1].endpoint.text(), "[2001:db8::1]:4853");
}

TEST(Options, BadPeersAreNamed) {
    for (const char* bad : {"client1", "192.0.2.1", "192.0.2.1:0", "host:99999", "a=b=1.2.3.4:5"}) {
        EXPECT_THROW(parse_peers({bad}), UsageError) << bad;
    }
}

TEST(Options, OneServerOfEachFamily) {
    const auto servers = parse_servers({"198.18.0.53", "fd00::53"}, 5353);
    EXPECT_EQ(servers.v4.value_or(Endpoint{}).text(), "198.18.0.53:5353");
    EXPECT_EQ(servers.v6.value_or(Endpoint{}).text(), "[fd00::53]:5353");
    EXPECT_FALSE(parse_servers({"fd00::53"}, 53).v4);
    EXPECT_THROW(parse_servers({"198.18.0.53", "198.18.0.54"}, 53), UsageError);
    EXPECT_THROW(parse_servers({"ns1.example"}, 53), UsageError);
}

TEST(Options, PublicServersAreRefused) {
    for (const char* address : {"198.41.0.4", "172.32.0.1", "100.128.0.1", "2001:503:ba3e::2:30"}) {
        EXPECT_THROW(parse_servers({address}, 53), UsageError) << address;
    }
    for (const char* address : {"127.0.0.1", "::1", "10.1.2.3", "172.31.0.1", "192.168.1.1",
                                "198.19.255.53", "fd00:198:19:ff::53", "fe80::1", "192.0.2.1"}) {
        EXPECT_NO_THROW(parse_servers({address}, 53)) << address;
    }
}

TEST(Options, TimesMustBePositive) {
    Options options;
    EXPECT_NO_THROW(validate(options));
    options.timeout_s = 0;
    EXPECT_THROW(validate(options), UsageError);
    options.timeout_s = 5;
    options.in_flight = 0;
    EXPECT_THROW(validate(options), UsageError);
}

} // namespace
} // namespace reprise::controller
