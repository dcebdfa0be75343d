#include "core/base/clock.hh"
#include "zonebuilder/testing/replies.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Rebuilt;
using testing::Reply;

constexpr const char* kRoot = "198.41.0.4";
constexpr const char* kCom = "192.5.6.30";
constexpr const char* kLeaf = "203.0.113.53";

/// From the root down to www.example.com, as a resolver with a cold cache sees it.
std::vector<Reply> walk() {
    return {
        {.server = kRoot,
         .question = ". NS",
         .answer = ". 518400 NS a.root-servers.net.",
         .additional = "a.root-servers.net. 518400 A 198.41.0.4"},
        {.server = kRoot,
         .question = "www.example.com. A",
         .authoritative = false,
         .authority = "com. 172800 NS a.gtld-servers.net.",
         .additional = "a.gtld-servers.net. 172800 A 192.5.6.30"},
        {.server = kCom,
         .question = "www.example.com. A",
         .authoritative = false,
         .authority = "example.com. 172800 NS ns1.example.com.",
         .additional = "ns1.example.com. 172800 A 203.0.113.53"},
        {.server = kLeaf,
         .question = "www.example.com. A",
         .answer = "www.example.com. 300 A 192.0.2.80",
         .authority = "example.com. 3600 NS ns1.example.com."},
    };
}

std::vector<Reply> walk_and(const std::vector<Reply>& more) {
    std::vector<Reply> all = walk();
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

TEST(Build, AColdWalkGivesEachRecordToItsZone) {
    const Rebuilt world(walk());
    EXPECT_TRUE(world.has(".", "com. 172800 IN NS a.gtld-servers.net."));
    EXPECT_TRUE(world.has("com.", "example.com. 172800 IN NS ns1.example.com."));
    EXPECT_TRUE(world.has("com.", "ns1.example.com. 172800 IN A 203.0.113.53"));
    EXPECT_TRUE(world.has("example.com.", "www.example.com. 300 IN A 192.0.2.80"));
    EXPECT_FALSE(world.has("com.", "www.example.com."));
    EXPECT_THAT(world.addresses.at("."), ElementsAre(kRoot));
    EXPECT_THAT(world.addresses.at("com."), ElementsAre(kCom));
    EXPECT_THAT(world.addresses.at("example.com."), ElementsAre(kLeaf));
    EXPECT_THAT(world.drafts.dropped, IsEmpty());
    EXPECT_THAT(world.hierarchy->distrusted(), IsEmpty());
}

TEST(Build, WhatIsMissingIsMadeUpAndSaysSo) {
    const Rebuilt world(walk());
    EXPECT_TRUE(world.has("example.com.", " ; made up: no_soa"));
    EXPECT_TRUE(world.has("com.", "com. 172800 IN NS a.gtld-servers.net. ; made up: "
                                  "servers_from_parent"));
    EXPECT_TRUE(world.has("example.com.", "ns1.example.com. 3600 IN A 203.0.113.53 ; made up: "
                                          "address_from_glue"));
}

TEST(Build, ALeafDoesNotRedefineCom) {
    const Rebuilt world(walk_and({
        {.server = kLeaf,
         .question = "evil.example.com. A",
         .answer = "evil.example.com. 300 A 192.0.2.66",
         .authority = "com. 3600 NS ns1.example.com.",
         .additional = "a.gtld-servers.net. 60 A 203.0.113.53"},
    }));
    EXPECT_TRUE(world.has("example.com.", "evil.example.com. 300 IN A 192.0.2.66"));
    EXPECT_FALSE(world.has("com.", "com. 3600 IN NS ns1.example.com."));
    EXPECT_THAT(world.addresses.at("com."), ElementsAre(kCom));
    EXPECT_EQ(world.hierarchy->distrusted().size(), 1U);
}

TEST(Build, DenialsKeepNamesApart) {
    const std::string soa = "example.com. 900 SOA ns1.example.com. h.example.com. 7 1 1 1 60";
    const Rebuilt world(walk_and({
        {.server = kLeaf, .question = "empty.example.com. A", .authority = soa},
        {.server = kLeaf, .question = "no.example.com. A", .authority = soa, .rcode = 3},
        {.server = kLeaf, .question = "www.example.com. AAAA", .authority = soa},
        {.server = kLeaf, .question = "www.example.com. A", .authority = soa},
    }));
    EXPECT_TRUE(world.has("example.com.", "example.com. 900 IN SOA ns1.example.com."));
    EXPECT_TRUE(world.has("example.com.", "reprise-empty.empty.example.com. "));
    EXPECT_FALSE(world.has("example.com.", "no.example.com."));
    EXPECT_EQ(world.drafts.contradictions.size(), 1U); // www.example.com A is there
}

TEST(Build, TheFirstAnswerCountsOrThatOfATime) {
    const std::vector<Reply> replies = walk_and({{.server = kLeaf,
                                                  .question = "www.example.com. A",
                                                  .answer = "www.example.com. 300 A 192.0.2.81"}});
    const Rebuilt first(replies);
    EXPECT_TRUE(first.has("example.com.", "www.example.com. 300 IN A 192.0.2.80"));
    EXPECT_FALSE(first.has("example.com.", "192.0.2.81"));
    EXPECT_EQ(first.drafts.versions.size(), 1U);
    const Rebuilt later(replies, 5 * kSecond);
    EXPECT_TRUE(later.has("example.com.", "www.example.com. 300 IN A 192.0.2.81"));
    EXPECT_FALSE(later.has("example.com.", "192.0.2.80"));
}

TEST(Build, AnAliasAndOtherRecordsDoNotStandTogether) {
    const Rebuilt world(walk_and({{.server = kLeaf,
                                   .question = "www.example.com. AAAA",
                                   .answer = "www.example.com. 60 CNAME a.example.com.\n"
                                             "a.example.com. 60 AAAA 2001:db8::1"}}));
    EXPECT_TRUE(world.has("example.com.", "www.example.com. 300 IN A 192.0.2.80"));
    EXPECT_FALSE(world.has("example.com.", "CNAME"));
    EXPECT_TRUE(world.has("example.com.", "a.example.com. 60 IN AAAA 2001:db8::1"));
    EXPECT_EQ(world.drafts.conflicts.size(), 1U);
}

TEST(Build, AliasesLeadIntoOtherZonesOnlyWhereTheServerHasThem) {
    const Rebuilt world(walk_and({{.server = kLeaf,
                                   .question = "out.example.com. A",
                                   .answer = "out.example.com. 60 CNAME www.other.com.\n"
                                             "www.other.com. 60 A 192.0.2.99"}}));
    EXPECT_TRUE(world.has("example.com.", "out.example.com. 60 IN CNAME www.other.com."));
    EXPECT_FALSE(world.has("com.", "192.0.2.99"));
    EXPECT_EQ(world.drafts.dropped.size(), 1U);
}

TEST(Build, AnAliasThatWasAskedForIsNotFollowed) {
    std::vector<Reply> replies = walk();
    replies.back() = {.server = kLeaf,
                      .question = "out.example.com. CNAME",
                      .answer = "out.example.com. 60 CNAME www.other.net.",
                      .authority = "example.com. 3600 NS ns1.example.com."};
    EXPECT_TRUE(Rebuilt(replies).has("example.com.", "example.com. 3600 IN NS ns1.example.com."));
}

TEST(Build, ParentAndChildOnOneAddressAreTwoZones) {
    const Rebuilt world(walk_and({
        {.server = kLeaf,
         .question = "sub.example.com. SOA",
         .answer = "sub.example.com. 900 SOA ns1.example.com. h.example.com. 7 1 1 1 60"},
        {.server = kLeaf,
         .question = "a.sub.example.com. A",
         .answer = "a.sub.example.com. 60 A 192.0.2.1"},
    }));
    EXPECT_TRUE(world.has("sub.example.com.", "a.sub.example.com. 60 IN A 192.0.2.1"));
    EXPECT_FALSE(world.has("example.com.", "a.sub.example.com."));
    EXPECT_TRUE(world.has("example.com.", "sub.example.com. 3600 IN NS "));
    EXPECT_THAT(world.addresses.at("sub.example.com."), ElementsAre(kLeaf));
}

TEST(Build, BehindAWarmCacheParentsAreMadeUp) {
    const Rebuilt world({{.server = kLeaf,
                          .question = "www.example.com. A",
                          .answer = "www.example.com. 300 A 192.0.2.80",
                          .authority = "example.com. 3600 NS ns1.example.com."}});
    EXPECT_TRUE(world.has(".", "example.com. 3600 IN NS ns1.example.com. ; made up: "
                               "delegation_from_child"));
    EXPECT_TRUE(world.has(".", "ns1.example.com. 3600 IN A 203.0.113.53 ; made up: "
                               "glue_from_child"));
    EXPECT_TRUE(world.has("example.com.", "ns1.example.com. 3600 IN A 203.0.113.53"));
    EXPECT_THAT(world.addresses.at("example.com."), ElementsAre(kLeaf));
}

TEST(Build, ADnameLeavesItsCnameOut) {
    const Rebuilt world(walk_and({{.server = kLeaf,
                                   .question = "x.old.example.com. A",
                                   .answer = "old.example.com. 60 DNAME new.example.com.\n"
                                             "x.old.example.com. 0 CNAME x.new.example.com.\n"
                                             "x.new.example.com. 60 A 192.0.2.7"}}));
    EXPECT_TRUE(world.has("example.com.", "old.example.com. 60 IN DNAME new.example.com."));
    EXPECT_TRUE(world.has("example.com.", "x.new.example.com. 60 IN A 192.0.2.7"));
    EXPECT_FALSE(world.has("example.com.", "CNAME"));
}

TEST(Build, AServersNameIsNotBelowADname) {
    const Rebuilt world({{.server = kLeaf,
                          .question = "x.example.com. A",
                          .answer = "example.com. 60 DNAME new.net.\n"
                                    "x.example.com. 0 CNAME x.new.net."},
                         {.server = kLeaf,
                          .question = "example.com. SOA",
                          .answer = "example.com. 900 SOA a.b. h.b. 7 1 1 1 60"}});
    EXPECT_TRUE(
        world.has("example.com.", "example.com. 3600 IN NS reprise-ns-example.com. ; made"));
    EXPECT_TRUE(world.has(".", "reprise-ns-example.com. 3600 IN A 203.0.113.53 ; made up: "));
}

TEST(Build, AServerThatRefusesIsLame) {
    std::vector<Reply> replies = walk();
    replies[2].authority += "\nexample.com. 172800 NS ns2.example.com.";
    replies[2].additional += "\nns2.example.com. 172800 A 203.0.113.54";
    replies.push_back({.server = "203.0.113.54",
                       .question = "www.example.com. A",
                       .authoritative = false,
                       .rcode = 5});
    const Rebuilt world(replies);
    EXPECT_THAT(world.addresses.at("example.com."), ElementsAre(kLeaf));
    EXPECT_EQ(world.drafts.lame.size(), 1U);
}

TEST(Build, AWildcardIsNoZone) {
    const std::string stranger = "203.0.113.99";
    const Rebuilt world(walk_and(
        {{.server = stranger, .question = "*.bit. A", .answer = "*.bit. 60 A 192.0.2.9"},
         {.server = stranger, .question = "*.com. A", .answer = "*.com. 60 A 192.0.2.9"}}));
    EXPECT_FALSE(world.addresses.contains("*.bit."));
    EXPECT_THAT(world.addresses.at("com."), ElementsAre(kCom));
    for (const auto& [zone, text] : world.texts) {
        EXPECT_THAT(text, Not(HasSubstr("192.0.2.9"))) << zone;
    }
}

TEST(Build, AWildcardIsInTheZoneOfItsSigner) {
    const auto rebuilt = [](int labels) {
        const std::string times = " 60 20300101000000 20200101000000 12345 ";
        return Rebuilt(
            walk_and({{.server = kLeaf,
                       .question = "a.b.example.com. TXT",
                       .answer = "a.b.example.com. 60 TXT x\na.b.example.com. 60 RRSIG TXT 8 " +
                                 std::to_string(labels) + times + "example.com. AAAA"}}));
    };
    EXPECT_TRUE(rebuilt(2).has("example.com.", "*.example.com. 60 IN TXT"));
    EXPECT_TRUE(rebuilt(1).has("example.com.", "a.b.example.com. 60 IN TXT"));
    EXPECT_FALSE(rebuilt(1).has("com.", "*.com."));
}

TEST(Build, TheOrderOfServersDoesNotMatter) {
    std::vector<Reply> replies = walk();
    std::swap(replies[0], replies[3]);
    std::swap(replies[1], replies[2]);
    EXPECT_EQ(Rebuilt(replies).texts, Rebuilt(walk()).texts);
}

} // namespace
} // namespace reprise::zonebuilder
