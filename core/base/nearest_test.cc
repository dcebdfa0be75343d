#include "core/base/nearest.hh"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

TEST(Nearest, FindsWordsWithFewMistakes) {
    const std::vector<std::string> words{"size", "share", "version"};
    EXPECT_EQ(nearest_word("sizze", words), "size");
    EXPECT_EQ(nearest_word("SHARE", words), "share");
    EXPECT_EQ(nearest_word("versionnn", words), "version");
    EXPECT_EQ(nearest_word("nothing", words), "");
    EXPECT_EQ(nearest_word("", words), "");
    EXPECT_EQ(nearest_word(std::string(1'000'000, 's'), words), "");
    EXPECT_EQ(suggestion("ab", words), "; known: size, share, version");
}

} // namespace
} // namespace reprise
