#include "controller/options.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

/// The least that is valid.
Options valid() {
    Options options;
    options.trace = "trace.pcap";
    return options;
}

TEST(Options, TimesMustBePositive) {
    Options options = valid();
    EXPECT_NO_THROW(validate(options));
    options.timeout_s = 0;
    EXPECT_THROW(validate(options), UsageError);
    options.timeout_s = 5;
    options.in_flight = 0;
    EXPECT_THROW(validate(options), UsageError);
}

TEST(Options, PublicServersAreRefusedUnlessAllowed) {
    Options options = valid();
    for (const char* address : {"198.41.0.4", "172.32.0.1", "100.128.0.1", "2001:503:ba3e::2:30"}) {
        options.servers = {address};
        options.allow_public = false;
        EXPECT_THROW(validate(options), UsageError) << address;
        options.allow_public = true;
        EXPECT_NO_THROW(validate(options)) << address;
    }
    options.allow_public = false;
    for (const char* address : {"127.0.0.1", "::1", "10.1.2.3", "172.31.0.1", "192.168.1.1",
                                "198.19.255.53", "fd00:198:19:ff::53", "fe80::1", "192.0.2.1"}) {
        options.servers = {address};
        EXPECT_NO_THROW(validate(options)) << address;
    }
}

struct Bad {
    const char* what;
    void (*spoil)(Options&);
};

class BadOptions : public ::testing::TestWithParam<Bad> {};

TEST_P(BadOptions, AreRefusedWithTheirName) {
    Options options = valid();
    GetParam().spoil(options);
    try {
        validate(options);
        FAIL() << GetParam().what;
    } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find(GetParam().what), std::string::npos)
            << error.what();
    }
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadOptions,
    ::testing::Values(
        Bad{"--speed", [](Options& o) { o.pace.speed = 0; }},
        Bad{"--rate", [](Options& o) { o.pace.rate = -1; }},
        Bad{"exclude each other", [](Options& o) { o.pace = {.speed = 2, .fast = true}; }},
        Bad{"exclude each other", [](Options& o) { o.pace = {.rate = 2, .fast = true}; }},
        Bad{"exclude each other", [](Options& o) { o.pace = {.speed = 3, .rate = 2}; }},
        Bad{"--loop 0 never ends", [](Options& o) { o.loop = 0; }},
        Bad{"cannot be read twice", [](Options& o) { o.loop = 2, o.trace = "-"; }},
        Bad{"--from soon", [](Options& o) { o.from = "soon"; }},
        Bad{"--until -1", [](Options& o) { o.until = "-1"; }},
        Bad{"--from 5 is not before", [](Options& o) { o.from = "5", o.until = "5"; }},
        Bad{"--in-flight", [](Options& o) { o.in_flight = 0; }},
        Bad{"--in-flight: must be 1 to 4194304", [](Options& o) { o.in_flight = 4'194'305; }},
        Bad{"--peers: 16 peers given; give at most 15",
            [](Options& o) {
                o.hedge_ms = 10, o.peers = std::vector<std::string>(16, "127.0.0.2");
            }},
        Bad{"--duration-s", [](Options& o) { o.duration_s = -1; }},
        Bad{"--sample-sources 0%", [](Options& o) { o.sample_sources = "0%"; }},
        Bad{"--sample-sources 101%", [](Options& o) { o.sample_sources = "101%"; }},
        Bad{"--sample-sources many", [](Options& o) { o.sample_sources = "many"; }},
        Bad{"--skip-source ten", [](Options& o) { o.skip_sources = {"ten"}; }},
        Bad{"--source-mode moon", [](Options& o) { o.source_mode = "moon"; }},
        Bad{"--source-mode addresses: the server's answers to the trace's addresses might leave "
            "the testbed; route them back to the client host or load a guard, and give "
            "--confirm-return-path",
            [](Options& o) { o.source_mode = "addresses"; }},
        Bad{"--source-mode packet: the server's answers",
            [](Options& o) { o.source_mode = "packet"; }},
        Bad{"--hedge", [](Options& o) { o.hedge_ms = 5000, o.peers = {"127.0.0.2"}; }},
        Bad{"need each other", [](Options& o) { o.hedge_ms = 10; }},
        Bad{"need each other", [](Options& o) { o.peers = {"127.0.0.2"}; }},
        Bad{"--peers 198.41.0.4: a public address",
            [](Options& o) { o.hedge_ms = 10, o.peers = {"198.41.0.4"}; }},
        Bad{"--server 2001:500:1::53: a public address; replays go to",
            [](Options& o) { o.servers = {"192.0.2.1", "2001:500:1::53"}; }},
        Bad{"--peers ns1", [](Options& o) { o.hedge_ms = 10, o.peers = {"ns1"}; }},
        Bad{"--transport quic: give trace", [](Options& o) { o.transport = "quic"; }},
        Bad{"--closer me", [](Options& o) { o.closer = "me"; }},
        Bad{"--queries-per-connection", [](Options& o) { o.queries_per_connection = 1'000'001; }},
        Bad{"--tcp-fallback and --hedge",
            [](Options& o) { o.tcp_fallback = true, o.hedge_ms = 10, o.peers = {"127.0.0.2"}; }},
        Bad{"--tls-version 1.1", [](Options& o) { o.dns_tls.version = "1.1"; }},
        Bad{"--tls-port", [](Options& o) { o.dns_tls.port = 0; }},
        Bad{"--tls-name 192.0.2.1", [](Options& o) { o.dns_tls.name = "192.0.2.1"; }},
        Bad{"--tls-name a b", [](Options& o) { o.dns_tls.name = "a b"; }},
        Bad{"needs --tls-resume", [](Options& o) { o.dns_tls.early_data = true; }},
        Bad{"needs TLS 1.3",
            [](Options& o) {
                o.dns_tls.resume = o.dns_tls.early_data = true, o.dns_tls.version = "1.2";
            }},
        Bad{"--tls-ca /nowhere/ca.pem: No such file",
            [](Options& o) { o.dns_tls.authorities = "/nowhere/ca.pem"; }},
        Bad{"no TRACE", [](Options& o) { o.trace = ""; }},
        Bad{"TRACE and --generate", [](Options& o) { o.generate = "."; }},
        Bad{"--generate a..b", [](Options& o) { o.trace = "", o.generate = "a..b"; }},
        Bad{"--rate or --fast", [](Options& o) { o.trace = "", o.generate = "."; }},
        Bad{"never ends", [](Options& o) { o.trace = "", o.generate = ".", o.pace.fast = true; }},
        Bad{"--generate-sources",
            [](Options& o) { o.trace = "", o.generate = ".", o.generate_sources = 0; }},
        Bad{"goes without --loop", [](Options& o) {
                o.trace = "", o.generate = ".", o.pace.fast = true, o.limit = 1, o.loop = 2;
            }}));

TEST(Options, SharesAsPercentAndNumber) {
    EXPECT_DOUBLE_EQ(parse_share("10%"), 0.1);
    EXPECT_DOUBLE_EQ(parse_share("0.25"), 0.25);
    EXPECT_DOUBLE_EQ(parse_share("100%"), 1);
    EXPECT_DOUBLE_EQ(parse_share("0.5%"), 0.005);
}

TEST(Options, PeersTakeTheServersPortByDefault) {
    const auto peers = parse_hedge_peers({"198.18.0.54", "[fd00::54]:5300", "fd00::55"}, 53);
    ASSERT_EQ(peers.size(), 3U);
    EXPECT_EQ(peers[0].text(), "198.18.0.54:53");
    EXPECT_EQ(peers[1].text(), "[fd00::54]:5300");
    EXPECT_EQ(peers[2].text(), "[fd00::55]:53");
}

TEST(Options, GeneratorWithRateAndLimitIsValid) {
    Options options;
    options.generate = "example.com";
    options.pace.rate = 100;
    options.limit = 10;
    EXPECT_NO_THROW(validate(options));
}

TEST(Options, AListOfPeersDoesNotSwallowTheTrace) {
    Command app;
    Options options;
    add_options(app, options);
    app.parse({"--run-id", "r", "--distributor", "127.0.0.1:1", "--cert", "c", "--key", "k", "--ca",
               "a", "--server", "127.0.0.1", "--hedge", "10", "--peers", "127.0.0.2,[::1]:54",
               "trace.pcap"});
    EXPECT_EQ(options.trace, "trace.pcap");
    EXPECT_EQ(options.peers, (std::vector<std::string>{"127.0.0.2", "[::1]:54"}));
}

} // namespace
} // namespace reprise::controller
