#include "core/base/error.hh"
#include "core/wire/settings.hh"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace reprise {
namespace {

/// The share of `text`.
double share(const std::string& text) {
    Settings settings;
    settings.sample_sources = text;
    return share_of(settings);
}

TEST(Settings, SharesAsPercentAndNumber) {
    EXPECT_DOUBLE_EQ(share("10%"), 0.1);
    EXPECT_DOUBLE_EQ(share("0.25"), 0.25);
    EXPECT_DOUBLE_EQ(share("100%"), 1);
    EXPECT_DOUBLE_EQ(share("0.5%"), 0.005);
}

TEST(Settings, PeersTakeTheServersPortByDefault) {
    Settings settings;
    set(settings, "replay.peers", "198.18.0.54,[fd00::54]:5300,fd00::55");
    const auto peers = peers_of(settings, 53);
    ASSERT_EQ(peers.size(), 3U);
    EXPECT_EQ(peers[0].text(), "198.18.0.54:53");
    EXPECT_EQ(peers[1].text(), "[fd00::54]:5300");
    EXPECT_EQ(peers[2].text(), "[fd00::55]:53");
}

TEST(Settings, TextsAreReadBack) {
    Settings settings;
    settings.speed = 0.1;
    settings.from = "2016-10-06T13:55:51.5Z";
    settings.ports = {53, 5353};
    settings.skip_sources = {"192.0.2.0/24", "2001:db8::/32"};
    settings.limit = 1ULL << 62U;
    settings.tls.verify = false;
    Settings read;
    for (const auto& [key, text] : texts(settings)) {
        set(read, key, text);
    }
    EXPECT_EQ(settings_json(read), settings_json(settings));
    EXPECT_NO_THROW(check(read));
}

TEST(Settings, EveryDefaultIsAllowed) {
    EXPECT_NO_THROW(check(Settings{}));
    const auto described = describe_settings();
    EXPECT_EQ(described["replay"]["timeout_s"]["type"], "number");
    EXPECT_EQ(described["replay"]["timeout_s"]["default"], 5);
    EXPECT_EQ(described["tls"]["port"]["high"], 65'535);
    EXPECT_EQ(described["tls"]["ca"]["type"], "path");
}

struct Bad {
    std::string settings; ///< KEY=VALUE, with semicolons between them
    const char* what;
};

class BadSettings : public ::testing::TestWithParam<Bad> {};

TEST_P(BadSettings, AreRefusedWithTheirName) {
    Settings settings;
    std::istringstream given(GetParam().settings);
    try {
        for (std::string one; std::getline(given, one, ';');) {
            set(settings, one.substr(0, one.find('=')), one.substr(one.find('=') + 1));
        }
        check(settings);
        FAIL() << GetParam().settings;
    } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find(GetParam().what), std::string::npos)
            << error.what();
    }
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadSettings,
    ::testing::Values(
        Bad{"replay.timeout_s=0", "replay.timeout_s 0: give 0.001 to 3600"},
        Bad{"replay.timeout_s=nan", "replay.timeout_s nan: give"},
        Bad{"replay.timeout_s=5s", "replay.timeout_s \"5s\": give number, 0.001 to 3600"},
        Bad{"replay.in_flight=-1", "replay.in_flight \"-1\": give whole number, 1 to 4194304"},
        Bad{"replay.fast=yes", "replay.fast \"yes\": give true or false"},
        Bad{"replay.ports=53,0", "replay.ports 0: give 1 to 65535"},
        Bad{"replay.ports=53,,54", "give whole numbers, 1 to 65535"},
        Bad{"replay.ports=", "replay.ports: none given"},
        Bad{"replay.rate=0.0001", "replay.rate 0.0001: give 0, or 0.001"},
        Bad{"replay.early_us=1001", "replay.early_us 1001: give auto or 0 to 1000"},
        Bad{"replay.early_us=fast", "replay.early_us fast"},
        Bad{"replay.spin_us=31", "replay.spin_us 31: give 0 to 30"},
        Bad{"replay.rate=2;replay.fast=true", "replay.speed, replay.rate and replay.fast exclude"},
        Bad{"replay.rate=5;replay.speed=2", "replay.speed, replay.rate and replay.fast exclude"},
        Bad{"replay.from=soon", "replay.from soon: not a time in the trace; give seconds"},
        Bad{"replay.until=-1", "replay.until -1: not a time in the trace"},
        Bad{"replay.until=2016-10-06T13:55:51", "replay.until 2016-10-06T13:55:51: not a time"},
        Bad{"replay.from=5;replay.until=5", "replay.from 5 is not before replay.until 5; give"},
        Bad{"replay.from=2024-01-01T00:00:00Z;replay.until=2024-01-01T00:00:00+01:00",
            "is not before replay.until 2024-01-01T00:00:00+01:00"},
        Bad{"replay.loop=0", "replay.loop 0 never ends; give replay.limit or replay.duration_s"},
        Bad{"replay.sample_sources=0%", "replay.sample_sources 0%: not a share; give e.g. 10%"},
        Bad{"replay.sample_sources=110%", "not a share"},
        Bad{"replay.sample_sources=half", "not a share"},
        Bad{"replay.skip_sources=192.0.2.0/33", "replay.skip_sources 192.0.2.0/33: not a prefix"},
        Bad{"replay.hedge_ms=5", "replay.hedge_ms and replay.peers need each other; give both"},
        Bad{"replay.peers=198.19.255.54", "replay.hedge_ms and replay.peers need each other"},
        Bad{"replay.peers=ns2;replay.hedge_ms=5", "replay.peers ns2: not ADDRESS[:PORT]"},
        Bad{"replay.peers=198.19.255.54;replay.hedge_ms=9000",
            "replay.hedge_ms 9000: must be below replay.timeout_s"},
        Bad{"replay.peers=::1,::2,::3,::4,::5,::6,::7,::8,::9,::a,::b,::c,::d,::e,::f,::10",
            "replay.peers: 16 peers given; give at most 15"},
        Bad{"replay.peers=::1;replay.hedge_ms=5;replay.tcp_fallback=true",
            "replay.tcp_fallback and replay.hedge_ms exclude each other"},
        Bad{"replay.peers=::1;replay.hedge_ms=5;replay.tcp_after_timeout=true",
            "replay.tcp_after_timeout and replay.hedge_ms exclude each other"},
        Bad{"tls.early_data=true", "tls.early_data needs tls.resume; give both"},
        Bad{"tls.early_data=true;tls.resume=true;tls.version=1.2", "tls.early_data needs TLS 1.3"},
        Bad{"tls.name=192.0.2.1", "tls.name 192.0.2.1: not a host name, e.g. server.example"},
        Bad{"tls.name=a/b", "tls.name a/b: not a host name"},
        Bad{"replay.idle_timeout_s=86401", "give 0.001 to 86400"},
        Bad{"replay.timeout=1", "\"replay.timeout\" is not a setting; did you mean"},
        Bad{"speed=1", "\"speed\" is not a setting; did you mean replay.speed?"},
        Bad{"tls.version=1.1", "any, 1.2, 1.3"},
        Bad{"replay.source_mode=port", "give one of ports, addresses, mapped, packet"},
        Bad{"replay.source_mode=", "give one of"},
        Bad{"replay.source_mode=ports, addresses", "give one of"}));

} // namespace
} // namespace reprise
