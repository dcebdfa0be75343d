#include "core/base/nearest.hh"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
namespace {

TEST(Nearest, CountsEdits) {
    EXPECT_EQ(edit_distance("", ""), 0U);
    EXPECT_EQ(edit_distance("", "abc"), 3U);
    EXPECT_EQ(edit_distance("port", "prot"), 1U);
    EXPECT_EQ(edit_distance("kitten", "SITTING"), 3U);
    EXPECT_EQ(edit_distance("ca", "abc"), 3U);
    EXPECT_GE(edit_distance(std::string(1'000'000, 's'), "s"), 64U);
}

TEST(Nearest, FindsWordsWithFewMistakes) {
    const std::vector<std::string> words{"size", "share", "version"};
    EXPECT_EQ(nearest_word("sizze", words), "size");
    EXPECT_EQ(nearest_word("SHARE", words), "share");
    EXPECT_EQ(nearest_word("versionnn", words), "version");
    EXPECT_EQ(nearest_word("vesrion", words), "version");
    EXPECT_EQ(nearest_word("nothing", words), "");
    EXPECT_EQ(nearest_word("", words), "");
    EXPECT_EQ(nearest_word("s", words), "");
    EXPECT_EQ(nearest_word(std::string(1'000'000, 's'), words), "");
    EXPECT_EQ(suggestion("ab", words), "; known: size, share, version");
    EXPECT_EQ(suggestion("shaer", words), "; did you mean share?");
    EXPECT_EQ(nearest_word("tpc", std::array<std::string_view, 2>{"udp", "tcp"}), "tcp");
}

} // namespace
} // namespace reprise
