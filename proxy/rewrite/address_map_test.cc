#include "core/base/error.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/tun/link_sender.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise::proxy {
namespace {

using ::testing::HasSubstr;

const std::string kHead = "#reprise-map 1\n";

/// The message with which a map is refused.
std::string refusal(const std::string& text) {
    try {
        parse_map(text, "map.tsv");
    } catch (const Error& error) {
        return error.what();
    }
    return "taken";
}

TEST(AddressMapTest, LinesInAnyOrderCommentsAndNoAddress) {
    const AddressMap map =
        parse_map(kHead + "oqda\t192.0.2.1\t7\n\n# by hand\n"
                          "meta\t7\t1\t3\t-\tfd00::7\nresolver\t1\t192.0.2.9\t-\n",
                  "map.tsv");
    ASSERT_EQ(map.oqdas.size(), 1);
    EXPECT_EQ(map.oqdas[0].slot, 7);
    ASSERT_EQ(map.metas.size(), 1);
    EXPECT_EQ(map.metas[0].instance, 3);
    EXPECT_EQ(map.metas[0].v4.family, 0);
    EXPECT_TRUE(map.metas[0].v6.is_v6());
    ASSERT_NE(map.resolver(1), nullptr);
    EXPECT_EQ(map.resolver(2), nullptr);
}

TEST(AddressMapTest, WhatIsWrongIsNamedWithItsLine) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"", "map.tsv:1: is empty"},
        {"#reprise-map 2\n", "map.tsv:1: does not begin with"},
        {kHead + "oqda\t192.0.2.1\t1", "map.tsv:2: ends within a line"}, // of slot 12, perhaps
        {kHead + "zone\tx\n", "map.tsv:2: \"zone\" is not resolver, meta or oqda"},
        {kHead + "\noqda\t192.0.2.1\n", "map.tsv:3: 2 cells where oqda has 3"},
        {kHead + "oqda\t192.0.2.256\t1\n", "\"192.0.2.256\" is not an address"},
        {kHead + "oqda\t192.0.2.1\t0\n", "\"0\" is not a number from 1 on"},
        {kHead + "oqda\t192.0.2.1\t1x\n", "\"1x\" is not a number"},
        {kHead + "oqda\t192.0.2.1\t1\noqda\t192.0.2.1\t2\n", "map.tsv:3: 192.0.2.1 is there twice"},
        {kHead + "meta\t1\t1\t1\tfd00::1\t-\n", "neither an IPv4 address nor -"},
        {kHead + "meta\t1\t1\t1\t192.0.2.1\t-\nmeta\t2\t1\t1\t192.0.2.1\t-\n", "is there twice"},
        {kHead + "resolver\t1\t-\t-\nresolver\t1\t-\t-\n", "resolver 1 is there twice"},
        {kHead + "resolver\t99999999999\t-\t-\n", "is not a number"}};
    for (const auto& [text, message] : cases) {
        EXPECT_THAT(refusal(text), HasSubstr(message));
        EXPECT_THAT(refusal(text), HasSubstr("; let `reprise zones plan` write it again"));
    }
}

TEST(AddressMapTest, RoutesNeedWhatTheMapPromises) {
    const AddressMap map =
        parse_map(kHead + "resolver\t1\t192.0.2.9\t-\noqda\t192.0.2.1\t1\n", "map.tsv");
    EXPECT_THROW(Routes::of_resolver(map, 2), UsageError);
    EXPECT_THROW(Routes::of_resolver(map, 1), Error);
    EXPECT_THROW(Routes::of_meta(parse_map(kHead + "meta\t1\t5\t1\t-\t-\n", "map.tsv")), Error);
}

TEST(AddressMapTest, NeighborsAreOneOfEachInstanceAndFamily) {
    const AddressMap map =
        parse_map(kHead + "resolver\t1\t192.0.2.9\tfd00::9\nresolver\t2\t192.0.2.8\t-\n"
                          "meta\t1\t1\t1\t192.0.2.1\tfd00::1\nmeta\t2\t1\t1\t192.0.2.2\tfd00::2\n"
                          "meta\t3\t1\t2\t-\tfd00::3\nmeta\t4\t1\t2\t192.0.2.3\t-\n"
                          "meta\t1\t2\t1\t192.0.2.4\t-\n",
                  "map.tsv");
    EXPECT_EQ(neighbors(map, Side::kResolver, 1).size(), 4);
    EXPECT_EQ(neighbors(map, Side::kMeta, 1).size(), 3);
    EXPECT_TRUE(neighbors(map, Side::kNone, 1).empty());
}

} // namespace
} // namespace reprise::proxy
