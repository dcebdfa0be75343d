#include "zonebuilder/testing/support.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace reprise::zonebuilder {
namespace {

using ::testing::HasSubstr;
using testing::ip;
using testing::name;

constexpr const char* kSoa = "@ 60 SOA m. h. 1 2 3 4 5\n";

Zone read(const std::string& text, const std::string& file = "example.com.zone",
          std::optional<NameKey> expected = {}) {
    return read_zone(text, file, expected);
}

/// "line: why" of a zone that does not load.
std::string trouble(const std::string& text, std::optional<NameKey> expected = {}) {
    try {
        read_zone(text, "example.com.zone", expected);
    } catch (const ZoneError& error) {
        return std::to_string(error.line()) + ": " + error.what();
    }
    return "none";
}

TEST(ZoneContent, SplitsDelegationsFromOwnData) {
    const Zone zone =
        read(std::string(kSoa) + "@ NS ns1\n@ NS ns.other.\nns1 A 192.0.2.1\n"
                                 "ns1 AAAA 2001:db8::1\nsub NS ns.sub\nns.sub A 192.0.2.2\n"
                                 "sub DS 1 8 2 00\n");
    EXPECT_EQ(zone.name, name("example.com"));
    EXPECT_THAT(zone.servers, ::testing::ElementsAre(name("ns1.example.com"), name("ns.other")));
    ASSERT_EQ(zone.delegations.size(), 1U);
    EXPECT_EQ(zone.delegations[0].name, name("sub.example.com"));
    ASSERT_EQ(zone.hosts.size(), 3U);
    EXPECT_FALSE(zone.hosts[0].glue);
    EXPECT_TRUE(zone.hosts[2].glue);
    EXPECT_EQ(zone.hosts[2].address, ip("192.0.2.2"));
}

TEST(ZoneContent, KeepsAliases) {
    const Zone zone = read(std::string(kSoa) + "@ NS n.\nin CNAME @\nout CNAME www.cdn.net.\n"
                                               "tree DNAME example.net.\n");
    ASSERT_EQ(zone.aliases.size(), 3U);
    EXPECT_EQ(zone.aliases[0].target, zone.name);
    EXPECT_EQ(zone.aliases[1].owner, name("out.example.com"));
    EXPECT_EQ(zone.aliases[1].target, name("www.cdn.net"));
    EXPECT_FALSE(zone.aliases[1].subtree);
    EXPECT_TRUE(zone.aliases[2].subtree);
}

constexpr const char* kKeys = "@ NS n.\n@ DNSKEY 256 3 8 AwEAAQ==\n"
                              "@ DNSKEY 257 3 8 AwEAAg==\n@ DNSKEY 385 3 8 AwEAAw==\n";

/// An RRSIG at the apex over a type; the second key's tag is 1804.
std::string apex_signature(const std::string& type, const std::string& tag = "1804") {
    return "@ RRSIG " + type + " 8 2 60 20301010000000 20201010000000 " + tag + " @ AAAA\n";
}

TEST(ZoneContent, KeepsKeySigningKeysOnly) {
    const Zone zone =
        read(std::string(kSoa) + kKeys + apex_signature("DNSKEY") + apex_signature("NS"));
    ASSERT_EQ(zone.anchors.size(), 1U); // neither the zone-signing nor the revoked one
    EXPECT_EQ(zone.anchors[0].rdata.back(), 2);
    EXPECT_FALSE(zone.keys_unsigned);
}

TEST(ZoneContent, KeysThatSignNoKeysOrThatNobodyValidatesByAreNoAnchors) {
    const Zone zone = read(std::string(kSoa) + kKeys + "@ DNSKEY 257 3 8 AwEAAQ==\n" +
                           "@ DNSKEY 257 3 200 AwEAAg==\n" +
                           "@ RRSIG DNSKEY 200 2 60 20301010000000 20201010000000 1996 @ AAAA\n" +
                           apex_signature("DNSKEY") + apex_signature("NS"));
    ASSERT_EQ(zone.anchors.size(), 1U);
    EXPECT_EQ(zone.anchors[0].rdata, std::string("\x01\x01\x03\x08\x03\x01\x00\x02", 8));
}

TEST(ZoneContent, SignaturesAreValidWhereEveryRecordHasOneThatIs) {
    const auto validity = [](const std::string& signatures) {
        return read(std::string(kSoa) + "@ NS n.\nsub NS n.\nsub DS 1 8 2 " + std::string(64, 'a') +
                    "\n" + signatures)
            .signatures;
    };
    const auto line = [](const std::string& what, int until, int from) {
        return fmt::format("{} 8 2 60 {} {} 1 @ AAAA\n", what, until, from);
    };
    EXPECT_EQ(validity(""), std::nullopt);
    const std::string first = line("@ RRSIG NS", 1'000, 100);
    EXPECT_EQ(validity(first), (Validity{.from = 100, .until = 1'000}));
    EXPECT_EQ(validity(first + line("@ RRSIG SOA", 900, 200)),
              (Validity{.from = 200, .until = 900}));
    EXPECT_EQ(validity(line("@ RRSIG NS", 300, 50) + line("sub RRSIG DS", 2'000, 100) + first),
              (Validity{.from = 100, .until = 1'000}))
        << "the second over NS stands in for the first";
    EXPECT_EQ(validity(line("x.other. RRSIG NS", 300, 50) + first),
              (Validity{.from = 100, .until = 1'000}));
}

TEST(ZoneContent, KnowsWhichDelegationsAreSigned) {
    const Zone zone = read(std::string(kSoa) + "@ NS n.\na NS n.\nb NS n.\nb DS 1 8 2 " +
                           std::string(64, 'a') + "\nc DS 1 8 2 " + std::string(64, 'a') + "\n");
    ASSERT_EQ(zone.delegations.size(), 2U) << "a DS alone is none";
    EXPECT_TRUE(zone.delegations[0].ds.empty());
    EXPECT_EQ(zone.delegations[1].ds.size(), 1U);
}

TEST(ZoneContent, KeysThatSignNothingAreNoAnchors) {
    const std::string keys = std::string(kSoa) + kKeys;
    const std::string ds = "sub NS n.\nsub DS 1 8 2 " + std::string(64, 'a') + "\n";
    for (const std::string& signatures :
         {std::string(), apex_signature("NS"), apex_signature("DNSKEY"),
          apex_signature("NS") + apex_signature("SOA"),
          apex_signature("DNSKEY", "7") + apex_signature("NS"),
          apex_signature("DNSKEY") + apex_signature("NS") + ds}) {
        const Zone zone = read(keys + signatures);
        EXPECT_TRUE(zone.anchors.empty()) << signatures;
        EXPECT_TRUE(zone.keys_unsigned) << signatures;
    }
    EXPECT_FALSE(read(std::string(kSoa) + "@ NS n.\n").keys_unsigned);
}

TEST(ZoneContent, RefusesWhatServersRefuse) {
    const std::string zone = std::string(kSoa) + "@ NS n.\n";
    const auto refused = [&](const std::string& record) {
        return trouble(zone + record + "\n", name("example.com"));
    };
    EXPECT_THAT(refused("*.x NS n."), HasSubstr("wildcard"));
    EXPECT_THAT(refused("* NS n."), HasSubstr("wildcard"));
    EXPECT_EQ(refused("x.* NS n."), "none");
    EXPECT_THAT(refused("@ DS 1 8 2 " + std::string(64, 'a')), HasSubstr("DS record"));
    EXPECT_THAT(refused("a TYPE255 \\# 1 00"), HasSubstr("not zone data"));
    EXPECT_THAT(refused("a TYPE41 \\# 0"), HasSubstr("not zone data"));
    EXPECT_THAT(refused("a A \\# 3 010203"), HasSubstr("wrong length"));
    EXPECT_THAT(refused("d DNAME a.\nd DNAME b."), HasSubstr("second DNAME"));
    EXPECT_EQ(refused("d DNAME a.\nd DNAME A."), "none");
}

TEST(ZoneContent, DelegationsBelowOthersAreNotSeen) {
    const Zone zone = read(std::string(kSoa) + "@ NS n.\na.sub NS n.\nsub NS n.\nsubx NS n.\n");
    ASSERT_EQ(zone.delegations.size(), 2U);
    EXPECT_EQ(zone.delegations[0].name, name("sub.example.com"));
    EXPECT_EQ(zone.delegations[1].name, name("subx.example.com"));
}

TEST(ZoneContent, TakesItsNameFromTheSoa) {
    const std::string text = "org. 60 SOA m. h. 1 2 3 4 5\norg. NS ns\nns A 192.0.2.1\n";
    const Zone zone = read(text, "whatever.txt");
    EXPECT_EQ(zone.name, name("org"));
    // A server completes relative names by the zone's name.
    EXPECT_EQ(zone.hosts[0].host, name("ns.org"));
    EXPECT_EQ(read(std::string(kSoa) + "@ NS n.", "root.zone").name, NameKey{});
    EXPECT_EQ(read("$ORIGIN net.\n" + std::string(kSoa) + "@ NS n.", "x.zone").name, name("net"));
}

TEST(ZoneContent, CountsRecordsOutside) {
    const Zone zone = read(std::string(kSoa) + "@ NS n.\nwww.example.net. A 192.0.2.1\n");
    EXPECT_EQ(zone.out_of_zone, 1U);
    EXPECT_TRUE(zone.hosts.empty());
    const std::string alias = "x.other. CNAME y.\nx.other. A 192.0.2.1\n";
    EXPECT_EQ(read(kSoa + ("@ NS n.\n" + alias)).out_of_zone, 2U);
}

TEST(ZoneContent, SaysWhatDoesNotLoad) {
    const std::string soa = kSoa;
    EXPECT_EQ(trouble(""), "0: no records");
    EXPECT_EQ(trouble("; nothing\n"), "0: no records");
    EXPECT_EQ(trouble("@ 60 NS n.\n"), "0: no SOA record");
    EXPECT_EQ(trouble(soa + "\n" + soa), "3: a second SOA record");
    EXPECT_EQ(trouble(soa), "0: no NS record at example.com.");
    EXPECT_EQ(trouble(soa + "@ NS n.\nw CNAME x\nw A 192.0.2.1\n"),
              "4: w.example.com. has a CNAME and other data");
    EXPECT_EQ(trouble(soa + "@ NS n.\nw A 192.0.2.1\nw CNAME x\n"),
              "3: w.example.com. has a CNAME and other data");
    EXPECT_EQ(trouble(soa + "@ NS n.\nw CNAME x\nw CNAME y\n"),
              "4: w.example.com. has a CNAME and other data");
    EXPECT_EQ(trouble("com. 60 SOA m. h. 1 2 3 4 5\n", name("org")),
              "1: its SOA record is at com., not at org.");
}

TEST(ZoneContent, SaysWhichLineIsNoRecord) {
    const std::string soa = kSoa;
    EXPECT_THAT(trouble(soa + "@ NS n.\nw A 1.2.3\n"), ::testing::StartsWith("3: "));
    EXPECT_THAT(trouble(soa + "@ NS n.\n\n$INCLUDE other\n"), ::testing::HasSubstr("$INCLUDE"));
    EXPECT_THAT(trouble(soa + "@ NS n.\n\n$Generate 1-2 h$ A 192.0.2.$\n"),
                ::testing::StartsWith("4: $GENERATE"));
    EXPECT_THAT(trouble(soa + "@ NS n.\n$NOTHING 1\n"), ::testing::HasSubstr("directive"));
    EXPECT_THAT(trouble(soa + "@ NS n.\nw CH A 1.2.3.4\n"), ::testing::StartsWith("3: "));
    EXPECT_THAT(trouble("@ 60 SOA m. h. ( 1 2 3 4\n"), ::testing::HasSubstr("unclosed"));
    EXPECT_THAT(trouble(soa + std::string(200, 'a') + " A 1.2.3.4\n"),
                ::testing::StartsWith("2: "));
    EXPECT_NE(trouble(std::string("\0\1\2", 3)), "none");
}

TEST(ZoneContent, TakesSignedAliasesAndDoubles) {
    const std::string soa = kSoa;
    EXPECT_EQ(trouble(soa + "@ NS n.\nw CNAME x\nw CNAME x\nw NSEC z CNAME\n"), "none");
    EXPECT_EQ(trouble(soa + "@ NS n."), "none") << "the last line needs no end";
}

} // namespace
} // namespace reprise::zonebuilder
