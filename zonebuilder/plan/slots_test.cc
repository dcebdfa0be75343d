#include "core/base/error.hh"
#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/testing/support.hh"
#include "zonebuilder/zone/zone.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.

using ::testing::ElementsAre;
using testing::ip;

Group group(std::vector<ZoneIndex> zones) { return {.zones = std::move(zones), .addresses = {}}; }

TEST(Slots, ColoredOneForEachColorOfAnInstance) {
    std::vector<Group> groups{group({0}), group({1, 2}), group({2, 3}), group({4})};
    const auto slots = make_slots(groups, {0, 1, 1, 0}, {0, 0, 0, 1}, Form::kColored);
    ASSERT_EQ(slots.size(), 3U);
    EXPECT_THAT(slots[1].zones, ElementsAre(1, 2, 3));
    EXPECT_EQ(slots[2].instance, 1U);
    const std::vector<std::uint32_t> of{groups[0].slot, groups[1].slot, groups[2].slot,
                                        groups[3].slot};
    EXPECT_THAT(of, ElementsAre(0, 1, 1, 2));
}

TEST(Slots, PaperOneAnInstanceSeparateOneAGroup) {
    std::vector<Group> groups{group({0}), group({1}), group({2})};
    EXPECT_EQ(make_slots(groups, {0, 1, 0}, {0, 0, 1}, Form::kPaper).size(), 2U);
    EXPECT_EQ(make_slots(groups, {0, 1, 0}, {0, 0, 1}, Form::kSeparate).size(), 3U);
}

TEST(Slots, InstancesGetEqualSharesAndFriendsStayTogether) {
    std::vector<Group> groups; // pairs of groups with the same ten zones but one
    for (ZoneIndex i = 0; i < 40; ++i) {
        std::vector<ZoneIndex> zones(10);
        std::iota(zones.begin(), zones.end(), i * 10);
        groups.push_back(group(zones));
        zones.pop_back();
        groups.push_back(group(zones));
    }
    const auto dealt = assign_instances(groups, 4);
    std::vector<std::set<ZoneIndex>> loaded(4);
    for (std::size_t i = 0; i < groups.size(); ++i) {
        loaded[dealt[i]].insert(groups[i].zones.begin(), groups[i].zones.end());
    }
    for (const auto& zones : loaded) {
        EXPECT_EQ(zones.size(), 100U);
    }
    EXPECT_EQ(dealt, assign_instances(groups, 4));
    EXPECT_THAT(assign_instances(groups, 1), ::testing::Each(0U));
}

TEST(Slots, EveryInstanceGetsSomething) {
    const std::vector<Group> groups{group({0, 1, 2, 3, 4, 5, 6, 7}), group({0, 1}), group({0})};
    const auto dealt = assign_instances(groups, 3);
    EXPECT_EQ(std::set<unsigned>(dealt.begin(), dealt.end()).size(), 3U);
}

TEST(MetaAddresses, OneForEachSlotAndResolver) {
    const auto all = meta_addresses(2, 2, testing::prefix("198.18.128.0/17"),
                                    testing::prefix("fd00:198:18::/48"));
    ASSERT_EQ(all.size(), 4U);
    EXPECT_EQ(all[0].v4, ip("198.18.128.1"));
    EXPECT_EQ(all[3].v4, ip("198.18.128.4"));
    EXPECT_EQ(all[3].v6, ip("fd00:198:18::4"));
    EXPECT_EQ(all[1].resolver, 1U);
    EXPECT_EQ(all[2].slot, 1U);
}

TEST(MetaAddresses, SaysWhenThePrefixIsTooSmall) {
    try {
        meta_addresses(4, 1, testing::prefix("198.18.128.0/30"), testing::prefix("fd00::/64"));
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "--meta4 198.18.128.0/30 is too small: 4 addresses are needed "
                                   "(slots times resolvers); give a wider prefix");
    }
}

// NOLINTEND(bugprone-unchecked-optional-access)

} // namespace
} // namespace reprise::zonebuilder
