#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "mutator/synth/names.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::mutator {
namespace {

std::string text_of(const Name& name) { return name_text(name.bytes()); }

std::string last_label(const std::string& name) {
    const size_t dot = name.rfind('.', name.size() - 2);
    return name.substr(dot == std::string::npos ? 0 : dot + 1);
}

TEST(SimpleNames, NamesLieBelowKnownDomains) {
    const MakeName make = simple_names({"com", "arpa", "xn--p1ai"}, 0);
    Random random(1);
    Name name;
    std::set<std::string> tops;
    for (int i = 0; i < 2000; ++i) {
        make(0, i % 2 == 0 ? kTypeA : kTypeSrv, random, name);
        tops.insert(last_label(text_of(name)));
    }
    EXPECT_EQ(tops, (std::set<std::string>{"com.", "arpa.", "xn--p1ai."}));
}

TEST(SimpleNames, TypesAskWhereTheyWould) {
    const MakeName make = simple_names({"com"}, 0);
    Random random(1);
    Name name;
    make(0, kTypeDs, random, name);
    EXPECT_EQ(text_of(name), "com.");
    make(0, kTypePtr, random, name);
    EXPECT_TRUE(text_of(name).ends_with(".in-addr.arpa."));
    std::set<std::string> names;
    for (int i = 0; i < 100; ++i) {
        make(0, kTypeNs, random, name);
        names.insert(text_of(name));
    }
    EXPECT_EQ(names, (std::set<std::string>{".", "com."}));
}

TEST(SimpleNames, JunkIsNeverDelegated) {
    const MakeName make = simple_names({"com", "home", "corp"}, 1);
    Random random(1);
    Name name;
    for (int i = 0; i < 5000; ++i) {
        make(0, i % 3 == 0 ? kTypePtr : kTypeA, random, name);
        const std::string top = last_label(text_of(name));
        ASSERT_NE(top, "com.");
        ASSERT_NE(top, "home.");
        ASSERT_NE(top, "corp.");
        ASSERT_GE(top.size(), 4U);
        ASSERT_LE(top.size(), 16U);
    }
}

} // namespace
} // namespace reprise::mutator

// NOLINTEND(bugprone-unchecked-optional-access)
