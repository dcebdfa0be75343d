#include "core/base/text.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
namespace {

TEST(Hex, IsReadAsItIsWritten) {
    std::vector<std::uint8_t> all(256);
    for (unsigned i = 0; i < all.size(); ++i) {
        all[i] = static_cast<std::uint8_t>(i);
    }
    std::string text;
    append_hex(text, all);
    std::vector<std::uint8_t> back;
    EXPECT_TRUE(parse_hex(text, back));
    EXPECT_EQ(back, all);
    EXPECT_TRUE(parse_hex("0aFf", back));
    EXPECT_EQ(back.size(), 258U);
    EXPECT_EQ(back.back(), 0xff);
    EXPECT_TRUE(parse_hex("", back));
    for (const char* bad : {"0", "0g", "0x", "00 ", "-1"}) {
        EXPECT_FALSE(parse_hex(bad, back)) << bad;
    }
}

TEST(Numbers, AreReadWhole) {
    EXPECT_EQ(parse_number<std::uint16_t>("65535"), 65'535);
    EXPECT_EQ(parse_number<int>("-7"), -7);
    EXPECT_EQ(parse_number<double>("2.5e3"), 2500.0);
    EXPECT_EQ(parse_number<unsigned>(std::string_view("123456").substr(1, 2)), 23U);
}

TEST(Numbers, WhatIsNoneIsRefused) {
    for (const char* bad : {"", " 1", "1 ", "+1", "-1", "1x", "0x1", "65536"}) {
        EXPECT_EQ(parse_number<std::uint16_t>(bad), std::nullopt) << bad;
    }
}

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
