#include "core/base/error.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/statistics.hh"
#include "proxy/testing/packets.hh"
#include "proxy/tun/tun.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

namespace reprise::proxy {
namespace {

using testing::numbered;

TEST(UnmappedTest, BusiestFirstAndBounded) {
    Unmapped unmapped;
    for (unsigned n = 0; n < Unmapped::kMost + 5; ++n) {
        unmapped.add(numbered(n));
    }
    unmapped.add(numbered(9));
    unmapped.add(numbered(9));
    unmapped.add(numbered(4));
    const auto busiest = unmapped.busiest(3);
    ASSERT_EQ(busiest.size(), 3);
    EXPECT_EQ(busiest[0], std::pair(numbered(9), std::uint64_t{3}));
    EXPECT_EQ(busiest[1], std::pair(numbered(4), std::uint64_t{2}));
    EXPECT_EQ(busiest[2], std::pair(numbered(0), std::uint64_t{1}));
    EXPECT_EQ(unmapped.others(), 5);
}

TEST(StatisticsTest, TheTwoFormsAgree) {
    Statistics statistics;
    statistics.side = "resolver";
    statistics.read = 5;
    statistics.count({.verdict = Verdict::kRewritten, .traffic = Traffic::kDatagram});
    statistics.count({.verdict = Verdict::kUnmapped, .traffic = Traffic::kConnection});
    statistics.count({.verdict = Verdict::kRewritten, .traffic = Traffic::kPushed});
    statistics.count({.verdict = Verdict::kShort});
    statistics.count({.verdict = Verdict::kBadFragment});
    statistics.unmapped.add(numbered(1));
    const auto json = nlohmann::json::parse(to_json(statistics));
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["packets"]["rewritten"], 2);
    EXPECT_EQ(json["packets"]["malformed"], 2);
    EXPECT_EQ(json["malformed"]["bad_fragment"], 1);
    EXPECT_EQ(json["upstream"]["udp_queries"], 1);
    EXPECT_EQ(json["upstream"]["udp_dropped"], 0); // what is unmapped is of TCP
    EXPECT_EQ(json["upstream"]["tcp_connections"], 1);
    EXPECT_EQ(json["upstream"]["tcp_queries"], 1);
    EXPECT_EQ(json["unmapped"][0]["address"], "192.0.0.1");
}

TEST(StatisticsTest, EveryPacketReadIsInOneCount) {
    Statistics statistics;
    for (size_t i = 0; i < kVerdicts; ++i) {
        statistics.count({.verdict = static_cast<Verdict>(i)});
    }
    const auto packets = nlohmann::json::parse(to_json(statistics))["packets"];
    std::uint64_t sum = 0;
    for (const char* const name : {"rewritten", "passed", "unmapped", "malformed", "foreign",
                                   "wrong_source", "link_local"}) {
        sum += packets[name].get<std::uint64_t>();
    }
    EXPECT_EQ(sum, kVerdicts);
}

TEST(TunTest, ANameThatNoDeviceCanHave) {
    EXPECT_THROW(Tun("a-name-far-too-long"), UsageError);
    EXPECT_THROW(Tun(""), UsageError);
}

} // namespace
} // namespace reprise::proxy
