#include "zonebuilder/zone/name.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::zonebuilder {
namespace {

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.

Name name(const std::string& text) { return Name::parse(text).value(); }

TEST(Name, ReadsAndWritesText) {
    EXPECT_EQ(name("WWW.Example.COM").text(), "www.example.com.");
    EXPECT_EQ(name("com.").text(), "com.");
    EXPECT_EQ(name(".").text(), ".");
    EXPECT_EQ(name(R"(a\.b.c)").text(), R"(a\046b.c.)");
    EXPECT_EQ(name(R"(a\"\032b.c)").text(), R"(a\034\032b.c.)");
    EXPECT_EQ(name(R"(a\046b.c)"), name(R"(a\.b.c)"));
    EXPECT_EQ(name("*.x._tcp").text(), "*.x._tcp.");
}

TEST(Name, RefusesWhatIsNoName) {
    for (const char* text : {"", "a..b", "..", ".a", R"(a\)", R"(a\25)", R"(a\256)"}) {
        EXPECT_FALSE(Name::parse(text)) << text;
    }
    EXPECT_TRUE(Name::parse(std::string(63, 'a')));
    EXPECT_FALSE(Name::parse(std::string(64, 'a')));
}

TEST(Name, LengthIsBounded) {
    std::string text; // 127 labels of one octet: 254 octets and the root's
    for (int i = 0; i < 127; ++i) {
        text += "a.";
    }
    EXPECT_TRUE(Name::parse(text));
    EXPECT_FALSE(Name::parse("a." + text));
}

TEST(Name, ReadsWireData) {
    const std::array<std::uint8_t, 8> wire{1, 'A', 3, 'c', 'o', 'm', 0, 9};
    EXPECT_EQ(Name::from_wire(wire).value(), name("a.com"));
    for (std::size_t length = 0; length < 7; ++length) {
        EXPECT_FALSE(Name::from_wire(std::span(wire).first(length))) << length;
    }
    const std::array<std::uint8_t, 3> pointer{0xc0, 12, 0};
    EXPECT_FALSE(Name::from_wire(pointer));
}

TEST(Name, KnowsWhatEncloses) {
    EXPECT_TRUE(name("a.b.c").within(name("b.c")));
    EXPECT_TRUE(name("b.c").within(name("b.c")));
    EXPECT_TRUE(name("b.c").within(Name{}));
    EXPECT_FALSE(name("b.c").within(name("a.b.c")));
    EXPECT_FALSE(name("xb.c").within(name("b.c")));
    EXPECT_FALSE(name("b.c").below(name("b.c")));
    EXPECT_TRUE(name("a.b.c").below(name("c")));
    const Name deep = name("www.example.com");
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
