#include "core/base/error.hh"
#include "zonebuilder/testing/support.hh"
#include "zonebuilder/zone/zone.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace reprise::zonebuilder {
namespace {

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.

using testing::name;

std::string list(const std::string& zones) { return R"({"schema":1,"zones":[)" + zones + "]}"; }

std::string refusal(const std::string& text) {
    try {
        parse_zones_json(text);
    } catch (const Error& error) {
        return error.what();
    }
    return "taken";
}

TEST(ZonesJson, ReadsEntries) {
    const auto [entries, asked] = parse_zones_json(list(
        R"({"name":"com.","file":"a/../com.zone","addresses":["2001:db8::1","192.5.6.30","192.5.6.30"]},)"
        R"({"name":"Net","file":"net.zone"})"));
    ASSERT_EQ(entries.size(), 2U);
    EXPECT_EQ(entries[0].name, name("com"));
    EXPECT_EQ(entries[0].file, "com.zone");
    EXPECT_EQ(entries[0].addresses->size(), 2U);
    EXPECT_EQ(entries[1].name, name("net"));
    EXPECT_FALSE(entries[1].addresses);
}

TEST(ZonesJson, SaysWhatIsWrong) {
    using ::testing::HasSubstr;
    EXPECT_THAT(refusal("{"), HasSubstr("zones.json: "));
    EXPECT_THAT(refusal("[]"), HasSubstr("array; see docs/formats.md"));
    EXPECT_THAT(refusal(R"({"schema":2,"zones":[]})"), HasSubstr("schema"));
    EXPECT_THAT(refusal(R"({"schema":1})"), HasSubstr("key 'zones' not found"));
    EXPECT_THAT(refusal(R"({"schema":1,"zones":{}})"), HasSubstr("object"));
    EXPECT_THAT(refusal(list("7")), HasSubstr("zone 1: "));
    EXPECT_THAT(refusal(list(R"({"file":"x"})")), HasSubstr("key 'name' not found"));
    EXPECT_THAT(refusal(list(R"({"name":"a..b","file":"x"})")), HasSubstr("not a domain name"));
    EXPECT_THAT(refusal(list(R"({"name":"a","file":7})")), HasSubstr("must be string"));
    EXPECT_THAT(refusal(list(R"({"name":"a","file":"x\"y"})")), HasSubstr("rename it"));
    EXPECT_THAT(refusal(list(R"({"name":"a","file":"x","addresses":"1.1.1.1"})")),
                HasSubstr("zone 1: "));
    EXPECT_THAT(refusal(list(R"({"name":"a","file":"x","addresses":["1.1.1"]})")),
                HasSubstr("\"1.1.1\" is not an IP address"));
    EXPECT_THAT(refusal(list(R"({"name":"a","file":"x","adresses":["1.1.1.1"]})")),
                HasSubstr("unknown key \"adresses\""));
    EXPECT_THAT(refusal(list(R"({"name":"a","file":"x"},{"name":"A.","file":"./x"})")),
                HasSubstr("zone 2: a. from x is listed twice"));
    for (const char* text : {"{", "[]", "\xff\xfe", R"({"schema":1,"zones":[null]})"}) {
        EXPECT_EQ(refusal(text).find('\n'), std::string::npos) << "one line";
    }
}

// NOLINTEND(bugprone-unchecked-optional-access)

} // namespace
} // namespace reprise::zonebuilder
