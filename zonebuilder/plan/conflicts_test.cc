// The smallest world for every condition of conflicts.cc, and its like without the conflict.
#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/testing/support.hh"
#include "zonebuilder/zone/zone.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

using testing::World;
using testing::zone;

constexpr const char* kOne = "10.0.0.1";
constexpr const char* kTwo = "10.0.0.2";
constexpr const char* kThree = "10.0.0.3";

TEST(Conflicts, UnrelatedZonesShare) {
    const World world({zone("example.com.", {kOne}), zone("example.net.", {kTwo})});
    EXPECT_TRUE(world.edges.empty());
}

TEST(Conflicts, AncestorsAndDescendants) {
    const World world({zone("com.", {kOne}), zone("a.b.com.", {kTwo}), zone("net.", {kThree})});
    EXPECT_TRUE(world.apart(kOne, kTwo));
    EXPECT_EQ(world.edges.size(), 1U);
}

TEST(Conflicts, ParentAndChildOnOneAddress) {
    const World parent({zone("com.", {kOne, kTwo}), zone("x.com.", {kOne})});
    EXPECT_TRUE(parent.apart(kOne, kTwo)) << "the child's names are delegated on the second";
    const World child({zone("com.", {kOne}), zone("x.com.", {kOne, kTwo})});
    EXPECT_TRUE(child.apart(kOne, kTwo)) << "the second has nobody above for the child's DS";
    const World both(
        {zone("com.", {kOne, kTwo}), zone("x.com.", {kOne, kTwo}), zone("net.", {kTwo})});
    EXPECT_FALSE(both.apart(kOne, kTwo)) << "both have both";
}

TEST(Conflicts, TwoContentsOfAZone) {
    const World world(
        {zone("com.", {kOne}, "", "old"), zone("com.", {kTwo}, "", "new"), zone("net.", {kThree})});
    EXPECT_TRUE(world.apart(kOne, kTwo));
    EXPECT_FALSE(world.apart(kOne, kThree));
    EXPECT_FALSE(world.apart(kTwo, kThree));
}

/// com. delegates x.com. to the second address, which serves only example.org.
World lame_world(const std::string& delegation, const std::string& other,
                 const std::vector<std::string>& other_addresses) {
    return World({zone("com.", {kOne}, delegation + " NS ns\nns A 10.0.0.2\n"),
                  zone("example.org.", {kTwo}), zone(other, other_addresses)});
}

TEST(Conflicts, LameServersRefuseWhatTheyAreAskedFor) {
    // The parent encloses the name: its view would refer where the lame server refuses.
    EXPECT_TRUE(lame_world("x", "net.", {kThree}).apart(kOne, kTwo));
    EXPECT_FALSE(lame_world("x", "net.", {kThree}).apart(kTwo, kThree));
    EXPECT_TRUE(lame_world("x", "x.com.", {kThree}).apart(kTwo, kThree)) << "equals";
    EXPECT_TRUE(lame_world("x", "a.x.com.", {kThree}).apart(kTwo, kThree)) << "lies below";
    EXPECT_TRUE(lame_world("a.x", "x.com.", {kThree}).apart(kTwo, kThree)) << "encloses";
    EXPECT_FALSE(lame_world("x", "y.com.", {kThree}).apart(kTwo, kThree)) << "a sibling";
}

TEST(Conflicts, NamesOutsideOfAllZonesHideNoOthers) {
    const World world({zone("com.", {kOne}), zone("example.org.", {kTwo})});
    const auto asked = [](const std::string& text) {
        const NameKey name = testing::name(text);
        return Lame{name, name, NameKey{}, testing::ip(kTwo), true};
    };
    EXPECT_EQ(find_conflicts(world.zones, world.tree, world.groups, {asked("net"), asked("x.com")},
                             world.group_of, Engine::kBind)
                  .size(),
              1U);
}

TEST(Conflicts, AServerWithTheParentIsNeverLameForTheChild) {
    const World world({zone("com.", {kOne, kTwo}, "x NS ns\nns A 10.0.0.2\n"), zone("net.", {kTwo}),
                       zone("org.", {kThree})});
    EXPECT_EQ(world.lame.size(), 1U);
    EXPECT_TRUE(world.edges.empty());
}

TEST(Conflicts, StaleGlueMakesLame) {
    const World world({zone("com.", {kOne}, "x NS ns.x\nns.x A 10.0.0.2\n"),
                       zone("x.com.", {kThree}, "ns A 10.0.0.3\n"), zone("net.", {kTwo})});
    EXPECT_TRUE(world.apart(kTwo, kThree));
    EXPECT_TRUE(world.apart(kOne, kTwo));
}

/// com. delegates x.com. to a name that `records` of dns.net. lead to the second address, which
/// serves only example.org.
bool lame_by(const std::string& server, const std::string& records) {
    const World world({zone("com.", {kOne}, "x NS " + server + ".dns.net.\n"),
                       zone("dns.net.", {kThree}, records),
                       zone("alias.org.", {kThree}, "ns CNAME a.dns.net.\n"),
                       zone("example.org.", {kTwo})});
    return world.apart(kOne, kTwo);
}

TEST(Conflicts, NameServersThatAreAliasesMakeLame) {
    EXPECT_TRUE(lame_by("ns", "ns CNAME a\na A 10.0.0.2\n"));
    EXPECT_TRUE(lame_by("ns", "ns CNAME ns.alias.org.\na A 10.0.0.2\n")) << "in two steps";
    EXPECT_TRUE(lame_by("a.old", "old DNAME dns.net.\na A 10.0.0.2\n"));
    EXPECT_TRUE(lame_by("ns.w", "*.w CNAME a\na A 10.0.0.2\n"));
    EXPECT_FALSE(lame_by("ns", "ns CNAME b\nb CNAME ns\na A 10.0.0.2\n")) << "a loop";
    EXPECT_FALSE(lame_by("a.d", "d DNAME d.d\na A 10.0.0.2\n")) << "grows with every step";
    EXPECT_FALSE(lame_by("old", "old DNAME dns.net.\na A 10.0.0.2\n")) << "only names below";
}

TEST(Conflicts, WildcardsBesideGlueMakeLame) {
    // The parent's glue is of former times; today a wildcard answers for the name.
    const char* const glue = "x NS ns.host.com.\nhost NS h.host\nh.host A 10.0.0.3\n"
                             "ns.host A 10.0.0.3\n";
    const World world({zone("com.", {kOne}, glue), zone("host.com.", {kThree}, "* A 10.0.0.2\n"),
                       zone("x.com.", {kThree}), zone("example.org.", {kTwo})});
    EXPECT_TRUE(world.apart(kTwo, kThree));
    EXPECT_FALSE(lame_by("ns.w", "*.w A 10.0.0.2\nns.w A 10.0.0.3\n")) << "has data of its own";
}

TEST(Conflicts, TheApexMayNameLameServersToo) {
    const World world({zone("x.com.", {kOne}, "@ NS ns\nns A 10.0.0.2\n"), zone("net.", {kTwo})});
    EXPECT_TRUE(world.apart(kOne, kTwo));
}

std::vector<Zone> alias_world(const std::string& record, const std::string& other) {
    return {zone("x.com.", {kOne}, record), zone(other, {kTwo})};
}

bool nsd_apart(const std::string& record, const std::string& other) {
    return World(alias_world(record, other), Engine::kNsd).apart(kOne, kTwo);
}

TEST(Conflicts, NsdFollowsAliases) {
    EXPECT_TRUE(nsd_apart("w CNAME w.cdn.net.\n", "cdn.net."));
    EXPECT_TRUE(nsd_apart("w CNAME cdn.net.\n", "cdn.net."));
    EXPECT_TRUE(nsd_apart("w CNAME w.cdn.net.\n", "net.")) << "it would add the referral";
    EXPECT_FALSE(nsd_apart("w CNAME cdn.net.\n", "w.cdn.net."));
    EXPECT_FALSE(nsd_apart("w CNAME w.cdn.net.\n", "example.net."));
    EXPECT_TRUE(nsd_apart("t DNAME t.cdn.net.\n", "cdn.net."));
    EXPECT_TRUE(nsd_apart("t DNAME cdn.net.\n", "w.cdn.net.")) << "names below the target";
    EXPECT_FALSE(nsd_apart("@ MX 1 mail.cdn.net.\n", "cdn.net."));
}

TEST(Conflicts, BindStaysInTheZone) {
    const World world(alias_world("w CNAME w.cdn.net.\n", "cdn.net."), Engine::kBind);
    EXPECT_TRUE(world.edges.empty());
}

TEST(Conflicts, NsdAliasIntoAZoneOfTheGroup) {
    const World world({zone("x.com.", {kOne}, "w CNAME w.cdn.net.\n"),
                       zone("cdn.net.", {kOne, kTwo}), zone("org.", {kTwo})},
                      Engine::kNsd);
    EXPECT_FALSE(world.apart(kOne, kTwo));
}

TEST(Conflicts, EdgesAreSortedAndSingle) {
    std::vector<Zone> zones{zone(".", {"10.9.0.1"}), zone("com.", {"10.9.0.2"})};
    for (int i = 0; i < 50; ++i) {
        const std::string n = std::to_string(i);
        zones.push_back(
            zone("a" + n + ".com.", {"10.0.0." + n, "10.0.1." + std::to_string(i / 2)}));
    }
    const World world(std::move(zones));
    EXPECT_TRUE(std::ranges::is_sorted(world.edges));
    EXPECT_EQ(std::ranges::adjacent_find(world.edges), world.edges.end());
    EXPECT_EQ(world.edges.size(), 1U + 2 * (50 + 25)) << "root-com, and both with all others";
}

} // namespace
} // namespace reprise::zonebuilder
