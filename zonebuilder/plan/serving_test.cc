#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/testing/support.hh"
#include "zonebuilder/zone/zone.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

namespace reprise::zonebuilder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ip;
using testing::World;
using testing::zone;

Zone derived(const std::string& apex, const std::string& records) {
    Zone made = zone(apex, {}, records);
    made.stated.reset();
    made.servers.erase(made.servers.begin()); // the one that zone() adds
    return made;
}

TEST(Serving, GroupsAddressesWithTheSameZones) {
    const World world({zone("com.", {"10.0.0.1", "10.0.0.2"}),
                       zone("net.", {"10.0.0.1", "10.0.0.2"}),
                       zone("org.", {"10.0.0.2", "2001:db8::3", "10.0.0.3"})});
    ASSERT_EQ(world.groups.size(), 3U);
    EXPECT_THAT(world.groups[0].addresses, ElementsAre(ip("10.0.0.1")));
    EXPECT_THAT(world.groups[1].addresses, ElementsAre(ip("10.0.0.2")));
    EXPECT_THAT(world.groups[2].addresses, ElementsAre(ip("10.0.0.3"), ip("2001:db8::3")));
}

TEST(Serving, DerivesAddressesFromOwnDataBeforeGlue) {
    const World world({derived("com.", "@ NS a.nic.net.\nx NS a.nic.net.\n"),
                       derived("net.", "@ NS a.nic\nnic NS a.nic\na.nic A 10.0.0.9\n"),
                       derived("nic.net.", "@ NS a\na A 10.0.0.1\n")});
    EXPECT_THAT(world.serving.zones_of, ElementsAre(::testing::Key(ip("10.0.0.1"))));
    EXPECT_EQ(world.groups.front().zones.size(), 3U);
}

TEST(Serving, DerivesAddressesFromGlueAndWildcards) {
    const World world({derived("com.", "@ NS ns.x\nx NS ns.x\nns.x A 10.0.0.1\n"),
                       derived("net.", "@ NS any.host\n*.host AAAA 2001:db8::1\n")});
    EXPECT_THAT(world.serving.zones_of,
                ElementsAre(::testing::Key(ip("10.0.0.1")), ::testing::Key(ip("2001:db8::1"))));
}

TEST(Serving, DerivesAddressesThroughAliases) {
    const World world({derived("com.", "@ NS ns\nns CNAME a.net.\n"),
                       derived("net.", "@ NS b\na A 10.0.0.1\nb CNAME c\n")});
    EXPECT_THAT(world.serving.zones_of, ElementsAre(::testing::Key(ip("10.0.0.1"))));
    ASSERT_EQ(world.serving.unserved.size(), 1U);
    EXPECT_EQ(world.serving.unserved.front().why, "no zone has an address of b.net.");
}

TEST(Serving, ResolversGoWhereTheParentSendsThem) {
    // gov. is of another year than the root: nobody here knows its own servers.
    const World world({derived(".", "@ NS r\nr A 10.0.0.1\ngov NS a.nic.gov\na.nic.gov A 10.0.0.2\n"
                                    "com NS b.com\nb.com A 10.0.0.4\nb.com A 10.0.0.5\n"),
                       derived("gov.", "@ NS a.gov-servers.net.\n"),
                       derived("com.", "@ NS a\na A 10.0.0.3\nb A 10.0.0.4\n")});
    EXPECT_TRUE(world.serving.unserved.empty());
    EXPECT_THAT(world.serving.zones_of,
                ElementsAre(::testing::Key(ip("10.0.0.1")), ::testing::Key(ip("10.0.0.2")),
                            ::testing::Key(ip("10.0.0.3")), ::testing::Key(ip("10.0.0.4"))));
    ASSERT_EQ(world.lame.size(), 1U) << "stale glue of b.com is where nobody serves";
    EXPECT_EQ(world.lame[0].address, ip("10.0.0.5"));
}

TEST(Serving, TheParentCannotSayWhichContentItMeans) {
    Zone stated = zone("com.", {"10.0.0.2"}, "", "a");
    Zone other = derived("com.", "@ NS a\na A 10.0.0.3\n");
    other.file = "b";
    const auto zones = World::sorted(
        {derived(".", "@ NS r\nr A 10.0.0.1\ncom NS r\ncom NS c\nc A 10.0.0.2\n"), stated, other});
    const AddressBook book(zones);
    EXPECT_TRUE(contradictions(zones, book).empty());
    EXPECT_EQ(serve(zones, book, {}).zones_of.at(ip("10.0.0.2")).size(), 1U);
}

TEST(Serving, ReportsWhatNobodyServesAndWhatCannotBeRouted) {
    const World world({derived("com.", "@ NS ns.gone.org.\n"), zone("net.", {}),
                       zone("org.", {"127.0.0.1"}), zone("edu.", {"127.0.0.1", "10.0.0.1"})});
    ASSERT_EQ(world.serving.unserved.size(), 3U);
    EXPECT_THAT(world.serving.unserved[0].why, HasSubstr("ns.gone.org."));
    EXPECT_THAT(world.serving.unserved[1].why, HasSubstr("empty"));
    EXPECT_THAT(world.serving.unserved[2].why, HasSubstr("routed"));
    ASSERT_EQ(world.serving.unroutable.size(), 1U);
    EXPECT_EQ(world.serving.unroutable.at(ip("127.0.0.1")).zones.size(), 2U);
    EXPECT_EQ(world.groups.size(), 1U);
}

TEST(Serving, AnAddressHasOneContentOfAZone) {
    const auto zones = World::sorted(
        {zone("com.", {"10.0.0.1"}, "", "a"), zone("com.", {"10.0.0.1", "10.0.0.2"}, "", "b"),
         zone("com.", {"10.0.0.2"}, "", "c"), zone("net.", {"10.0.0.1"}, "", "d")});
    const auto bad = contradictions(zones, AddressBook(zones));
    ASSERT_EQ(bad.size(), 1U) << "c has its address for itself once b is gone";
    EXPECT_EQ(bad[0].file, "b");
    EXPECT_THAT(bad[0].why, HasSubstr("10.0.0.1 serves this zone from a"));
}

TEST(Serving, RootServersOfTheInternetLeadToTheSmallestRootGroup) {
    World world({zone(".", {"10.0.0.1", "10.0.0.2"}), zone("com.", {"10.0.0.1", "198.41.0.4"})});
    const std::size_t added = add_root_addresses(world.groups, world.tree,
                                                 {{testing::prefix("192.5.5.0/24"), "testbed"}});
    EXPECT_EQ(added, 36U); // of 38: one serves com. here, one is reserved
    const auto group_of = group_of_address(world.groups);
    EXPECT_EQ(group_of.at(ip("128.63.2.53")), group_of.at(ip("10.0.0.2")));
    EXPECT_EQ(group_of.at(ip("198.41.0.4")), world.group_of.at(ip("198.41.0.4")));
    EXPECT_FALSE(group_of.contains(ip("192.5.5.241")));
}

TEST(Serving, WithoutRootNothingIsAdded) {
    World world({zone("com.", {"10.0.0.1"})});
    EXPECT_EQ(add_root_addresses(world.groups, world.tree, {}), 0U);
}

TEST(Lame, SeesParentsAndApexes) {
    const World world({zone("com.", {"10.0.0.1"},
                            "x NS ns.x\nns.x A 10.0.0.2\n"
                            "y NS ns.x\ngone NS ns.x\naway NS ns.far.net.\n"),
                       zone("x.com.", {"10.0.0.2"}, "@ NS other\nother A 10.0.0.1\n"),
                       zone("y.com.", {"10.0.0.3"})});
    std::vector<std::string> found;
    std::ranges::transform(world.lame, std::back_inserter(found), [](const Lame& one) {
        return one.zone.text() + " by " + one.parent.text() + " " + one.address.text();
    });
    EXPECT_THAT(found, ElementsAre("x.com. by x.com. 10.0.0.1", "y.com. by com. 10.0.0.2",
                                   "gone.com. by com. 10.0.0.2"));
}

} // namespace
} // namespace reprise::zonebuilder
