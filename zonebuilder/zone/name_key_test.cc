#include "zonebuilder/testing/support.hh"
#include "zonebuilder/zone/zone.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::zonebuilder {
namespace {

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.

using testing::name;

TEST(NameKey, ReadsAndWritesText) {
    EXPECT_EQ(name("WWW.Example.COM").text(), "www.example.com.");
    EXPECT_EQ(name("com.").text(), "com.");
    EXPECT_EQ(name(".").text(), ".");
    EXPECT_EQ(name(R"(a\.b.c)").text(), R"(a\046b.c.)");
    EXPECT_EQ(name(R"(a\"\032b.c)").text(), R"(a\034\032b.c.)");
    EXPECT_EQ(name(R"(a\046b.c)"), name(R"(a\.b.c)"));
    EXPECT_EQ(name("*.x._tcp").text(), "*.x._tcp.");
}

TEST(NameKey, RefusesWhatIsNoName) {
    for (const char* text : {"", "a..b", "..", ".a", R"(a\)", R"(a\25)", R"(a\256)"}) {
        EXPECT_FALSE(NameKey::parse(text)) << text;
    }
    EXPECT_TRUE(NameKey::parse(std::string(63, 'a')));
    EXPECT_FALSE(NameKey::parse(std::string(64, 'a')));
}

TEST(NameKey, LengthIsBounded) {
    std::string text; // 127 labels of one octet: 254 octets and the root's
    for (int i = 0; i < 127; ++i) {
        text += "a.";
    }
    EXPECT_TRUE(NameKey::parse(text));
    EXPECT_FALSE(NameKey::parse("a." + text));
}

TEST(NameKey, ReadsWireData) {
    const std::array<std::uint8_t, 8> wire{1, 'A', 3, 'c', 'o', 'm', 0, 9};
    EXPECT_EQ(NameKey::from_wire(wire).value(), name("a.com"));
    for (std::size_t length = 0; length < 7; ++length) {
        EXPECT_FALSE(NameKey::from_wire(std::span(wire).first(length))) << length;
    }
    const std::array<std::uint8_t, 3> pointer{0xc0, 12, 0};
    EXPECT_FALSE(NameKey::from_wire(pointer));
}

TEST(NameKey, KnowsWhatEncloses) {
    EXPECT_TRUE(name("a.b.c").within(name("b.c")));
    EXPECT_TRUE(name("b.c").within(name("b.c")));
    EXPECT_TRUE(name("b.c").within(NameKey{}));
    EXPECT_FALSE(name("b.c").within(name("a.b.c")));
    EXPECT_FALSE(name("xb.c").within(name("b.c")));
    const NameKey deep = name("www.example.com");
    std::vector<std::string> keys;
    for (const auto key : deep.enclosing()) {
        keys.emplace_back(key);
    }
    EXPECT_EQ(keys,
              (std::vector<std::string>{"", "\3com", "\3com\7example", "\3com\7example\3www"}));
}

// NOLINTEND(bugprone-unchecked-optional-access)

} // namespace
} // namespace reprise::zonebuilder
