#include "controller/controller.hh"
#include "controller/options.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/tree/fanout.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace reprise::controller {
namespace {

TEST(Options, PeersWithAndWithoutNames) {
    const auto peers =
        tree::parse_peers("--distributor", {"client1=192.0.2.1:4853", "[2001:db8::1]:4853"});
    ASSERT_EQ(peers.size(), 2U);
    EXPECT_EQ(peers[0].name, "client1");
    EXPECT_EQ(peers[0].endpoint.text(), "192.0.2.1:4853");
    EXPECT_EQ(peers[1].name, "");
    EXPECT_EQ(peers[1].endpoint.text(), "[2001:db8::1]:4853");
}

TEST(Options, BadPeersAreNamed) {
    for (const char* bad : {"client1", "192.0.2.1", "192.0.2.1:0", "host:99999", "a=b=1.2.3.4:5"}) {
        EXPECT_THROW(tree::parse_peers("--distributor", {bad}), UsageError) << bad;
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
    options.replay.timeout_s = 0;
    EXPECT_THROW(validate(options), UsageError);
    options.replay.timeout_s = 5;
    options.replay.in_flight = 0;
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
        Bad{"replay.speed", [](Options& o) { o.replay.speed = 0; }},
        Bad{"replay.rate", [](Options& o) { o.replay.rate = -1; }},
        Bad{"exclude each other", [](Options& o) { o.replay.speed = 2, o.replay.fast = true; }},
        Bad{"exclude each other", [](Options& o) { o.replay.rate = 2, o.replay.fast = true; }},
        Bad{"exclude each other", [](Options& o) { o.replay.speed = 3, o.replay.rate = 2; }},
        Bad{"replay.loop 0 never ends", [](Options& o) { o.replay.loop = 0; }},
        Bad{"cannot be read twice", [](Options& o) { o.replay.loop = 2, o.trace = "-"; }},
        Bad{"replay.from soon", [](Options& o) { o.replay.from = "soon"; }},
        Bad{"replay.until -1", [](Options& o) { o.replay.until = "-1"; }},
        Bad{"replay.from 5 is not before",
            [](Options& o) { o.replay.from = "5", o.replay.until = "5"; }},
        Bad{"replay.in_flight", [](Options& o) { o.replay.in_flight = 0; }},
        Bad{"replay.in_flight 4194305: give 1 to 4194304",
            [](Options& o) { o.replay.in_flight = 4'194'305; }},
        Bad{"replay.peers: 16 peers given; give at most 15",
            [](Options& o) {
                o.replay.hedge_ms = 10, o.replay.peers = std::vector<std::string>(16, "127.0.0.2");
            }},
        Bad{"replay.duration_s", [](Options& o) { o.replay.duration_s = -1; }},
        Bad{"replay.sample_sources 0%", [](Options& o) { o.replay.sample_sources = "0%"; }},
        Bad{"replay.sample_sources 101%", [](Options& o) { o.replay.sample_sources = "101%"; }},
        Bad{"replay.sample_sources many", [](Options& o) { o.replay.sample_sources = "many"; }},
        Bad{"replay.skip_sources ten", [](Options& o) { o.replay.skip_sources = {"ten"}; }},
        Bad{"replay.source_mode moon: give one of ports, addresses, mapped, packet",
            [](Options& o) { o.replay.source_mode = "moon"; }},
        Bad{"replay.source_mode addresses: the server's answers to the trace's addresses might "
            "leave "
            "the testbed; route them back to the client host or load a guard, and give "
            "--confirm-return-path",
            [](Options& o) { o.replay.source_mode = "addresses"; }},
        Bad{"replay.source_mode packet: the server's answers",
            [](Options& o) { o.replay.source_mode = "packet"; }},
        Bad{"replay.hedge_ms",
            [](Options& o) { o.replay.hedge_ms = 5000, o.replay.peers = {"127.0.0.2"}; }},
        Bad{"need each other", [](Options& o) { o.replay.hedge_ms = 10; }},
        Bad{"need each other", [](Options& o) { o.replay.peers = {"127.0.0.2"}; }},
        Bad{"replay.peers 198.41.0.4: a public address",
            [](Options& o) { o.replay.hedge_ms = 10, o.replay.peers = {"198.41.0.4"}; }},
        Bad{"--server 2001:500:1::53: a public address; replays go to",
            [](Options& o) { o.servers = {"192.0.2.1", "2001:500:1::53"}; }},
        Bad{"replay.peers ns1",
            [](Options& o) { o.replay.hedge_ms = 10, o.replay.peers = {"ns1"}; }},
        Bad{"replay.transport quic: give one of trace",
            [](Options& o) { o.replay.transport = "quic"; }},
        Bad{"replay.closer me", [](Options& o) { o.replay.closer = "me"; }},
        Bad{"replay.queries_per_connection",
            [](Options& o) { o.replay.queries_per_connection = 1'000'001; }},
        Bad{"replay.tcp_fallback and replay.hedge_ms",
            [](Options& o) {
                o.replay.tcp_fallback = true, o.replay.hedge_ms = 10,
                o.replay.peers = {"127.0.0.2"};
            }},
        Bad{"tls.version 1.1", [](Options& o) { o.replay.tls.version = "1.1"; }},
        Bad{"tls.port", [](Options& o) { o.replay.tls.port = 0; }},
        Bad{"tls.name 192.0.2.1", [](Options& o) { o.replay.tls.name = "192.0.2.1"; }},
        Bad{"tls.name a b", [](Options& o) { o.replay.tls.name = "a b"; }},
        Bad{"needs tls.resume", [](Options& o) { o.replay.tls.early_data = true; }},
        Bad{"needs TLS 1.3",
            [](Options& o) {
                o.replay.tls.resume = o.replay.tls.early_data = true, o.replay.tls.version = "1.2";
            }},
        Bad{"tls.ca /nowhere/ca.pem: No such file",
            [](Options& o) { o.replay.tls.ca = "/nowhere/ca.pem"; }},
        Bad{"no TRACE", [](Options& o) { o.trace = ""; }},
        Bad{"TRACE and --generate", [](Options& o) { o.generate = "."; }},
        Bad{"--generate a..b", [](Options& o) { o.trace = "", o.generate = "a..b"; }},
        Bad{"replay.rate or replay.fast", [](Options& o) { o.trace = "", o.generate = "."; }},
        Bad{"never ends", [](Options& o) { o.trace = "", o.generate = ".", o.replay.fast = true; }},
        Bad{"--generate-sources",
            [](Options& o) { o.trace = "", o.generate = ".", o.generate_sources = 0; }},
        Bad{"goes without replay.loop", [](Options& o) {
                o.trace = "", o.generate = ".", o.replay.fast = true, o.replay.limit = 1,
                o.replay.loop = 2;
            }}));

TEST(Options, GeneratorWithRateAndLimitIsValid) {
    Options options;
    options.generate = "example.com";
    options.replay.rate = 100;
    options.replay.limit = 10;
    EXPECT_NO_THROW(validate(options));
}

Options parsed(const std::string& arguments) {
    std::istringstream text("--run-id r --distributor 127.0.0.1:1 --cert c --key k --ca a "
                            "--server 127.0.0.1 " +
                            arguments);
    const std::vector<std::string> words(std::istream_iterator<std::string>(text), {});
    Command app;
    Options options;
    add_options(app, options);
    app.parse(words);
    return options;
}

TEST(Options, AListOfPeersDoesNotSwallowTheTrace) {
    const Options options = parsed("--hedge-ms 10 --peers 127.0.0.2,[::1]:54 trace.pcap");
    EXPECT_EQ(options.trace, "trace.pcap");
    EXPECT_EQ(options.replay.peers, (std::vector<std::string>{"127.0.0.2", "[::1]:54"}));
}

TEST(Options, FilesAndSettingsInTheirOrderThenOptions) {
    const std::string path = ::testing::TempDir() + "settings.toml";
    std::ofstream(path)
        << "[replay]\nspeed = 2.5\nfrom = 1475762151.5\nports = [53, 5353]\n"
           "peers = [\"127.0.0.2\", \"[::1]:54\"]\nlimit = 1\n[tls]\nresume = true\n"
           "name = \"a\\u00fc\"\n";
    const Options options =
        parsed("--limit 3 --set replay.speed=3 --options " + path +
               " --set replay.limit=2 --set tls.port=8853 --tls-verify=false trace.pcap");
    EXPECT_EQ(options.replay.speed, 2.5);
    EXPECT_EQ(options.replay.from, "1475762151.5");
    EXPECT_EQ(options.replay.ports, (std::vector<std::uint16_t>{53, 5353}));
    EXPECT_EQ(options.replay.peers, (std::vector<std::string>{"127.0.0.2", "[::1]:54"}));
    EXPECT_EQ(options.replay.limit, 3U);
    EXPECT_EQ(options.replay.tls.port, 8853U);
    EXPECT_TRUE(options.replay.tls.resume);
    EXPECT_FALSE(options.replay.tls.verify);
    EXPECT_EQ(options.replay.tls.name, "a\u00fc");
}

TEST(Options, BadFilesAreNamedWithTheLine) {
    const std::string path = ::testing::TempDir() + "bad.toml";
    for (const auto& [text, what] :
         {std::pair("[replay]\nspeed = \"x\"\n",
                    ":2: replay.speed \"x\": give number, 0.001 to 1000000"),
          {"[replay]\n\nsped = 1\n", ":3: \"replay.sped\" is not a setting; did you mean"},
          {"speed = 1\n", ":1: speed is no table"},
          {"[replay]\nports = [[53]]\n", ":2: is a table or a list"},
          {"[replay.from]\na = 1\n", ":1: is a table or a list"},
          {"[replay]\npeers = [\"a,b\"]\n", ":2: a text in a list"},
          {"[replay\n", "bad.toml:1: "}}) {
        std::ofstream(path) << text;
        try {
            parsed("--options " + path + " trace.pcap");
            FAIL() << text;
        } catch (const UsageError& error) {
            EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
        }
    }
    EXPECT_THROW(parsed("--options /nowhere/settings.toml t.pcap"), UsageError);
    EXPECT_THROW(parsed("--options /tmp t.pcap"), UsageError);
    try {
        parsed("--in-flight 1.5 t.pcap"); // which --help does not show
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("--in-flight"), std::string::npos) << error.what();
    }
    for (const char* bad : {"--set replay.speed", "--set replay.speed=x", "--set speed=1",
                            "--tls-port 65536", "--queries-per-connection -1"}) {
        EXPECT_THROW(parsed(std::string(bad) + " t.pcap"), UsageError) << bad;
    }
}

} // namespace
} // namespace reprise::controller
