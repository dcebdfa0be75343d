#include "core/base/hex.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
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

} // namespace
} // namespace reprise
