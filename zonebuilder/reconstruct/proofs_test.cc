#include "zonebuilder/testing/replies.hh"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

using testing::Rebuilt;
using testing::Reply;

/// A signature by example. over records of a name.
std::string signature(const std::string& owner, const std::string& type, unsigned labels = 2) {
    return owner + " 60 RRSIG " + type + " 8 " + std::to_string(labels) +
           " 60 20301010000000 20201010000000 1804 example. AAAA";
}

Reply reply(std::string question, std::string answer, std::string authority = {}) {
    return {.server = "203.0.113.53",
            .question = std::move(question),
            .answer = std::move(answer),
            .authority = std::move(authority)};
}

Reply signed_answer(const std::string& name, unsigned labels = 2) {
    return reply(name + " A", name + " 60 A 192.0.2.1\n" + signature(name, "A", labels));
}

Reply keys() {
    return reply("example. DNSKEY",
                 "example. 60 DNSKEY 257 3 8 AwEAAg==\n" + signature("example.", "DNSKEY", 1));
}

/// NODATA, proven.
Reply denial(const std::string& name, const std::string& proof) {
    const std::string owner = proof.substr(0, proof.find(' '));
    const std::string soa = "example. 60 SOA ns.example. h.example. 7 1 1 1 60\n";
    const std::string type = proof.find("NSEC3") == std::string::npos ? "NSEC" : "NSEC3";
    return reply(name + " AAAA", "",
                 soa + signature("example.", "SOA", 1) + "\n" + proof + "\n" +
                     signature(owner, type));
}

constexpr const char* kNoDenials = "example. 0 IN NSEC3PARAM 1 0 0 - ; made up: no_denials";

TEST(Proofs, AZoneWithoutDenialsGivesItsSignatures) {
    const Rebuilt world({signed_answer("www.example."), keys()});
    EXPECT_TRUE(world.has("example.", kNoDenials));
    EXPECT_FALSE(world.has("example.", "no_keys"));
    EXPECT_FALSE(world.has("example.", " NSEC "));
    EXPECT_TRUE(world.drafts.unproven.empty());
}

TEST(Proofs, AMadeUpKeyIsNoEntryPoint) {
    const Rebuilt world({signed_answer("www.example.")});
    EXPECT_TRUE(world.has("example.", "example. 3600 IN DNSKEY 256 3 8 "));
    EXPECT_TRUE(world.has("example.", "example. 3600 IN RRSIG DNSKEY 8 1 3600 20301010000000 "));
    EXPECT_TRUE(world.has("example.", kNoDenials));
    ASSERT_EQ(world.drafts.unproven.size(), 1U);
    EXPECT_EQ(world.drafts.unproven.front().why, "no_keys");
}

TEST(Proofs, AnUnsignedZoneStaysAsItIs) {
    const Rebuilt world({reply("www.example. A", "www.example. 60 A 192.0.2.1")});
    EXPECT_FALSE(world.has("example.", "DNSKEY"));
    EXPECT_FALSE(world.has("example.", "NSEC"));
}

TEST(Proofs, EachNameOfANsecZoneDeniesItself) {
    const Rebuilt world({signed_answer("www.example."), signed_answer("\\195.m.example.", 3),
                         keys(),
                         denial("mail.example.", "mail.example. 60 NSEC www.example. A RRSIG NSEC"),
                         // From another time: nothing may come between mail and www.
                         signed_answer("n.example.")});
    EXPECT_TRUE(world.has("example.", "example. 3600 IN NSEC \\000.example. NS SOA RRSIG NSEC "
                                      "DNSKEY ; made up: no_denial"));
    EXPECT_TRUE(world.has("example.", "example. 3600 IN RRSIG NSEC 8 1 3600 20301010000000 "));
    EXPECT_TRUE(world.has("example.", "www.example. 3600 IN NSEC \\000.www.example. A RRSIG NSEC"));
    EXPECT_TRUE(world.has("example.", "m.example. 3600 IN NSEC \\000.\\195.m.example. A "));
    EXPECT_TRUE(world.has("example.", "mail.example. 60 IN NSEC www.example. A RRSIG NSEC\n"));
    EXPECT_FALSE(world.has("example.", "\nn.example. 3600 IN NSEC"));
    EXPECT_FALSE(world.has("example.", "NSEC3PARAM"));
}

TEST(Proofs, AnNsec3ZoneHasItsApex) { // the hash is RFC 5155's, appendix A
    const Rebuilt world(
        {signed_answer("www.example."), keys(),
         denial("a.example.", "35mthgpgcu1qg68fab165klnsnk3dpvl.example. 60 NSEC3 1 "
                              "1 12 aabbccdd b4um86eghhds6nea196smvmlo4ors995 NS")});
    EXPECT_TRUE(world.has("example.", "example. 0 IN NSEC3PARAM 1 0 12 AABBCCDD"));
    EXPECT_TRUE(world.has("example.", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example. 3600 IN NSEC3 1 0 "
                                      "12 AABBCCDD 0p9mhaveqvm6t7vbl5lop2u3t2rp3ton NS SOA RRSIG "
                                      "DNSKEY NSEC3PARAM ; made up: no_apex_denial"));
}

TEST(Proofs, BindTakesNoDsForGlueOfTheApex) {
    const Rebuilt world({{.server = "203.0.113.53",
                          .question = "example. NS",
                          .answer = "example. 60 NS a.example.\n" + signature("example.", "NS", 1)},
                         {.server = "203.0.113.53",
                          .question = "www.a.example. A",
                          .authoritative = false,
                          .authority = "a.example. 60 NS ns.a.example.\na.example. 60 DS 1 8 2 "
                                       "0123456789012345678901234567890123456789012345678901234567"
                                       "890123\n" +
                                       signature("a.example.", "DS")}});
    const std::string& text = world.texts.at("example.");
    EXPECT_LT(text.find(" DS 1 8 2 "), text.find(" NS a.example."));
    EXPECT_LT(text.find(" SOA "), text.find(" DS 1 8 2 "));
}

/// The marker of a name that exists, though nobody has seen records of it.
bool exists(const Rebuilt& world, const std::string& name) {
    return world.has("example.", "\nreprise-empty." + name + " 3600 IN TXT ");
}

TEST(Proofs, NamesOfNsecRecordsExist) {
    const Rebuilt world(
        {denial("mail.example.", "mail.example. 60 NSEC next.example. A RRSIG NSEC"),
         denial("x.example.", "x.example. 60 NSEC \\000.x.example. RRSIG NSEC"),
         denial("last.example.", "last.example. 60 NSEC example. A RRSIG NSEC"),
         {.server = "203.0.113.53",
          .question = "gone.example. A",
          .authority = "example. 60 SOA ns.example. h.example. 7 1 1 1 60\n"
                       "go.example. 60 NSEC gone.example. A RRSIG NSEC\n" +
                       signature("go.example.", "NSEC"),
          .rcode = 3}});
    for (const char* name : {"mail.example.", "next.example.", "last.example.", "go.example."}) {
        EXPECT_TRUE(exists(world, name)) << name;
    }
    EXPECT_FALSE(exists(world, "\\000.x.example."));
    EXPECT_FALSE(exists(world, "gone.example.")) << "a server said so";
    EXPECT_FALSE(exists(world, "example."));
}

} // namespace
} // namespace reprise::zonebuilder
