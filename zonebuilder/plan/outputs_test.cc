#include "core/base/error.hh"
#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/testing/support.hh"
#include "zonebuilder/zone/zone.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace reprise::zonebuilder {
namespace {

using ::testing::HasSubstr;
using testing::ip;
using testing::prefix;
using testing::World;
using testing::zone;

PlanSettings settings() {
    return {.resolvers = {{.v4 = ip("198.19.254.1"), .v6 = ip("fd00:198:19:fe::1")}},
            .meta4 = prefix("198.18.128.0/17"),
            .meta6 = prefix("fd00:198:18::/48"),
            .reserved = {},
            .root_addresses = false};
}

/// Root and com. on addresses of their own, and an address that serves com. and a zone with an odd
/// name.
std::vector<Zone> zones() {
    return World::sorted({zone(".", {"10.0.0.1"},
                               "@ 60 NS a.root\na.root A 10.0.0.1\na.root AAAA 2001:db8::9\n@ 60 "
                               "DNSKEY 257 3 8 AwEAAQ==\n"
                               "@ RRSIG DNSKEY 8 0 60 20301010000000 20201010000000 1803 @ AAAA\n"
                               "@ RRSIG NS 8 0 60 20301010000000 20201010000000 1803 @ AAAA\n",
                               "root.zone"),
                          zone("com.", {"10.0.0.2", "2001:db8::2", "10.0.0.3"}, "", "com.zone"),
                          zone(R"(o\"dd.org.)", {"10.0.0.3"}, "", "odd.zone")});
}

TEST(Outputs, MapNamesResolversMetaAddressesAndOqdas) {
    PlanSettings two = settings();
    two.resolvers.push_back({.v4 = ip("198.19.254.2"), .v6 = {}});
    EXPECT_EQ(map_text(make_plan(zones(), two), two),
              "#reprise-map 1\n"
              "resolver\t1\t198.19.254.1\tfd00:198:19:fe::1\n"
              "resolver\t2\t198.19.254.2\t-\n"
              "meta\t1\t1\t1\t198.18.128.1\tfd00:198:18::1\n"
              "meta\t1\t2\t1\t198.18.128.2\tfd00:198:18::2\n"
              "meta\t2\t1\t1\t198.18.128.3\tfd00:198:18::3\n"
              "meta\t2\t2\t1\t198.18.128.4\tfd00:198:18::4\n"
              "oqda\t10.0.0.1\t1\n"
              "oqda\t10.0.0.2\t2\n"
              "oqda\t2001:db8::2\t2\n"
              "oqda\t10.0.0.3\t2\n");
}

TEST(Outputs, HintsNameServedAddressesOnly) {
    const Plan plan = make_plan(zones(), settings());
    EXPECT_EQ(root_hints(plan),
              "; made by reprise-zonebuilder plan; changes are lost with the next plan\n"
              ". 60 IN NS a.root.\n"
              "a.root. 60 IN A 10.0.0.1\n");
    EXPECT_EQ(root_key(plan), ". 60 IN DNSKEY 257 3 8 AwEAAQ==\n");
}

TEST(Outputs, KeysOfAnUnsignedRootAreNoAnchors) {
    const auto all = World::sorted({zone(".", {"10.0.0.1"}, "@ DNSKEY 257 3 8 AwEAAQ==\n")});
    const Plan plan = make_plan(all, settings());
    EXPECT_EQ(root_key(plan), "");
    EXPECT_THAT(summary_text(plan, settings(), all, {}),
                HasSubstr("root has keys but no signatures: nothing can be validated"));
}

TEST(Outputs, ResolversThatCannotReachTheRootAreNamed) {
    PlanSettings families = settings();
    families.resolvers = {{.v4 = ip("198.19.254.1"), .v6 = {}},
                          {.v4 = {}, .v6 = ip("fd00:198:19:fe::2")}};
    const auto all = World::sorted({zone(".", {"10.0.0.1"})});
    const std::string text = summary_text(make_plan(all, families), families, all, {});
    EXPECT_THAT(text, HasSubstr("resolver 2 has no address of the family"));
    EXPECT_EQ(text.find("resolver 1"), std::string::npos);
}

TEST(Outputs, HintsFallBackOnTheAddressesThatServeTheRoot) {
    const auto all =
        World::sorted({zone(".", {"10.0.0.1", "10.0.0.2"}), zone("com.", {"10.0.0.3"})});
    const Plan plan = make_plan(all, settings());
    EXPECT_THAT(root_hints(plan), HasSubstr("nowhere.invalid. 60 IN A 10.0.0.2\n"));
    EXPECT_EQ(root_key(plan), "");
}

TEST(Outputs, WithoutRootZoneThereAreNoHints) {
    const auto all = World::sorted({zone("com.", {"10.0.0.3"})});
    const Plan plan = make_plan(all, settings());
    EXPECT_EQ(root_hints(plan), "; there is no root zone\n");
    EXPECT_THAT(summary_text(plan, settings(), all, {}), HasSubstr("root zone missing"));
}

TEST(Outputs, PlanJsonHasTheContract) {
    auto all = zones();
    all.push_back(zone("zz.", {"127.0.0.1"}));
    const Plan plan = make_plan(all, settings());
    const std::vector<BadZone> failed{{"bad.", "bad.zone", 7, "why"}};
    const auto json = nlohmann::json::parse(plan_json(plan, settings(), all, failed));
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["engine"], "bind");
    EXPECT_EQ(json["form"], "colored");
    EXPECT_EQ(json["zones"], 4);
    EXPECT_EQ(json["addresses"], 4);
    EXPECT_EQ(json["groups"][2]["addresses"], nlohmann::json({"10.0.0.3"}));
    EXPECT_EQ(json["groups"][2]["zones"], nlohmann::json({"com.", "o\\034dd.org."}));
    EXPECT_EQ(json["groups"][2]["slot"], 2);
    EXPECT_EQ(json["colors"], 2);
    EXPECT_EQ(json["edges"], 2);
    EXPECT_EQ(json["slots"][1]["zones"], 2);
    EXPECT_EQ(json["unroutable"][0]["address"], "127.0.0.1");
    EXPECT_EQ(json["unserved"][0]["zone"], "zz.");
    EXPECT_EQ(json["failed"][0]["line"], 7);
    EXPECT_TRUE(json["lame"].is_array());
    EXPECT_TRUE(json["seconds"].contains("color"));
}

/// Of the zone's own name, over a type; by the key that the root has below.
std::string own_signature(const std::string& type) {
    return "@ RRSIG " + type + " 8 0 60 20301010000000 20201010000000 1804 @ AAAA\n";
}

TEST(MakePlan, TrustComesDownByDsRecords) {
    const std::string ds = " DS 1 8 2 " + std::string(64, 'a') + "\n";
    const auto all = World::sorted(
        {zone(".", {"10.0.0.1"},
              "@ DNSKEY 257 3 8 AwEAAg==\na NS n.\na" + ds + "b NS n.\nc NS n.\nc" + ds +
                  own_signature("DNSKEY") + own_signature("NS") + own_signature("DS")),
         zone("a.", {"10.0.0.2"}, own_signature("NS")), zone("b.", {"10.0.0.2"}, "x NS n.\nx" + ds),
         zone("c.", {"10.0.0.2"}), zone("x.b.", {"10.0.0.2"}, own_signature("NS"))});
    const auto json =
        nlohmann::json::parse(plan_json(make_plan(all, settings()), settings(), all, {}));
    const auto& trusted = json["trusted"];
    ASSERT_EQ(trusted.size(), 3U) << "b. has no DS, so nothing below it counts";
    EXPECT_EQ(trusted[1]["zone"], "a.");
    EXPECT_EQ(trusted[1]["until"], 1'917'820'800);
    EXPECT_EQ(trusted[2]["zone"], "c.");
    EXPECT_FALSE(trusted[2].contains("until")) << "has a DS and no signatures";
    EXPECT_EQ(trusted[2]["unproven"], "it has no signatures");
    EXPECT_EQ(trusted[1]["unproven"], "it has no DNSKEY record that matches its DS records");
}

TEST(MakePlan, WhatBindWithholdsIsNotProven) {
    const auto unproven = [](const std::string& more, Engine engine) {
        const auto all = World::sorted({zone(
            ".", {"10.0.0.1"},
            "@ DNSKEY 257 3 8 AwEAAg==\n" + own_signature("DNSKEY") + own_signature("NS") + more)});
        PlanSettings how = settings();
        how.engine = engine;
        const Plan plan = make_plan(all, how);
        return plan.trusted.size() == 1 && !plan.trusted.front().why.empty();
    };
    EXPECT_TRUE(unproven("", Engine::kBind));
    EXPECT_FALSE(unproven("", Engine::kNsd));
    EXPECT_FALSE(unproven("@ NSEC3PARAM 1 0 0 -\n", Engine::kBind));
    EXPECT_FALSE(unproven("@ NSEC a NS SOA\n", Engine::kBind));
}

TEST(MakePlan, ZonesThatAreNotHereAreNotLame) {
    const auto all = World::sorted({zone("com.", {"10.0.0.1"}, "x NS ns\ny NS ns\nns A 10.0.0.2\n"),
                                    zone("x.com.", {"10.0.0.3"}), zone("net.", {"10.0.0.2"})});
    const Plan plan = make_plan(all, settings());
    const auto json = nlohmann::json::parse(plan_json(plan, settings(), all, {}));
    ASSERT_EQ(json["lame"].size(), 1U);
    EXPECT_EQ(json["lame"][0]["zone"], "x.com.");
    ASSERT_EQ(json["not_built"].size(), 1U);
    EXPECT_EQ(json["not_built"][0]["zone"], "y.com.");
    EXPECT_THAT(summary_text(plan, settings(), all, {}),
                HasSubstr("1 delegated zones that are not here (not_built)"));
}

TEST(MakePlan, TestbedAddressesAreUnroutable) {
    const auto all =
        World::sorted({zone("com.", {"198.19.254.1", "198.18.200.1", "10.1.1.1", "10.0.0.1"})});
    PlanSettings reserving = settings();
    reserving.reserved = {{prefix("10.1.0.0/16"), "reserved"}};
    const Plan plan = make_plan(all, reserving);
    ASSERT_EQ(plan.unroutable.size(), 3U);
    EXPECT_EQ(plan.unroutable.at(ip("10.1.1.1")).why, "reserved");
    EXPECT_EQ(plan.unroutable.at(ip("198.18.200.1")).why, "a meta address");
    EXPECT_EQ(plan.unroutable.at(ip("198.19.254.1")).why, "a resolver's own address");
    EXPECT_EQ(plan.groups.size(), 1U);
}

TEST(MakePlan, NothingToServeAndTooManyInstances) {
    EXPECT_THROW(make_plan({}, settings()), Error);
    EXPECT_THROW(make_plan(World::sorted({zone("com.", {"127.0.0.1"})}), settings()), Error);
    PlanSettings many = settings();
    many.instances = 4;
    EXPECT_THROW(make_plan(zones(), many), UsageError);
}

} // namespace
} // namespace reprise::zonebuilder
