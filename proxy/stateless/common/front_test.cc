#include "core/base/clock.hh"
#include "core/base/json.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <gtest/gtest.h>

namespace reprise::proxy {
namespace {

TEST(StatelessCounters, HaveOneForm) {
    Counters counters{};
    counters.syn = 5;
    counters.queries = 3;
    counters.unsent = 2;
    counters.promoted[kTransfer] = 1;
    counters.not_promoted[kSplit] = 2;
    counters.entries_limit = 65'536;
    counters.entries_lived = 250 * kMillisecond;
    StatelessOptions options;
    options.interfaces = {"eth0", "eth1"};
    const Json json = Json::parse(to_json(counters, options, 1'500 * kMillisecond, 0.25));
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["kind"], "stateless");
    EXPECT_EQ(json["front"], "reference");
    EXPECT_EQ(json["interface"], "eth0,eth1");
    EXPECT_EQ(json["port"], 53);
    EXPECT_EQ(json["promotion"], false);
    EXPECT_EQ(json["seconds"], 1.5);
    EXPECT_EQ(json["cpu_seconds"], 0.25);
    EXPECT_EQ(json["syn"], 5);
    EXPECT_EQ(json["queries"], 3);
    EXPECT_EQ(json["late"], 0);
    EXPECT_EQ(json["unsent"], 2);
    EXPECT_EQ(json["promoted"], (Json{{"transfer", 1}}));
    EXPECT_EQ(json["not_promoted"], (Json{{"split", 2}}));
    EXPECT_EQ(json["entries_limit"], 65'536);
    EXPECT_EQ(json["entry_seconds"], 0.25);
}

TEST(StatelessCounters, PromotionIsOfTheBpfFrontUnlessItIsOff) {
    StatelessOptions options;
    options.front = FrontKind::kBpf;
    EXPECT_EQ(Json::parse(to_json({}, options, 0, 0))["promotion"], true);
    options.promote = false;
    const Json json = Json::parse(to_json({}, options, 0, 0));
    EXPECT_EQ(json["promotion"], false);
    EXPECT_EQ(json["front"], "bpf");
}

TEST(StatelessCounters, TimesOfProgramsAreThereWhereTheyAreMeasured) {
    Counters counters{};
    counters.in_time = 2 * kMillisecond;
    counters.out_time = 3 * kMillisecond;
    StatelessOptions options;
    EXPECT_TRUE(Json::parse(to_json(counters, options, 0, 0))["out_seconds"].is_null());
    options.timed = true;
    const Json json = Json::parse(to_json(counters, options, 0, 0));
    EXPECT_EQ(json["in_seconds"], 0.002);
    EXPECT_EQ(json["out_seconds"], 0.003);
}

TEST(StatelessCounters, EachReasonHasAName) {
    EXPECT_EQ(kReasonNames[kOpt], "opt");
    EXPECT_EQ(kReasonNames[kTruncated], "truncated");
    EXPECT_EQ(kReasonNames[kTransfer], "transfer");
}

} // namespace
} // namespace reprise::proxy
