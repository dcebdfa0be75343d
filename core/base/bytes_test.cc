#include "core/base/bytes.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace reprise {
namespace {

constexpr std::array<std::uint8_t, 8> kBytes{1, 2, 3, 4, 5, 6, 7, 8};

TEST(Cursor, ReadsBigAndLittleEndian) {
    Cursor in(kBytes);
    EXPECT_EQ(in.u8(), 1);
    EXPECT_EQ(in.u16be(), 0x0203);
    EXPECT_EQ(in.u32be(), 0x04050607U);
    EXPECT_EQ(in.left(), 1U);
    in.seek(0);
    EXPECT_EQ(in.little<std::uint32_t>(), 0x04030201U);
    EXPECT_TRUE(in.ok());
}

TEST(Cursor, KeepsItsErrorAndYieldsZeros) {
    Cursor in(kBytes);
    in.skip(6);
    EXPECT_EQ(in.u32be(), 0U);
    EXPECT_FALSE(in.ok());
    EXPECT_EQ(in.u8(), 0) << "after a short read even bytes that exist are not handed out";
    EXPECT_EQ(in.left(), 0U);
    EXPECT_FALSE(in.ok());
}

TEST(Cursor, TakesToTheVeryEnd) {
    Cursor in(kBytes);
    EXPECT_EQ(in.take(8).size(), 8U);
    EXPECT_TRUE(in.ok());
    EXPECT_TRUE(in.take(0).empty());
    EXPECT_TRUE(in.ok());
    in.skip(1);
    EXPECT_FALSE(in.ok());
}

TEST(Cursor, HugeLengthsDoNotWrap) {
    Cursor in(kBytes);
    in.skip(2);
    EXPECT_TRUE(in.take(SIZE_MAX).empty());
    EXPECT_FALSE(in.ok());
}

TEST(Cursor, SeekingPastTheEndFails) {
    Cursor in(kBytes);
    in.seek(8);
    EXPECT_TRUE(in.ok());
    in.seek(9);
    EXPECT_FALSE(in.ok());
}

TEST(NetworkOrder, IsReadAsItIsWritten) {
    std::vector<std::uint8_t> out(6);
    store16(out.data(), 0x1fffe);
    store32(out.data() + 2, 0x01020304);
    append16(out, 0xabcd);
    EXPECT_EQ(out, (std::vector<std::uint8_t>{0xff, 0xfe, 1, 2, 3, 4, 0xab, 0xcd}));
    EXPECT_EQ(load16(out.data()), 0xfffe);
    EXPECT_EQ(load16(&out[6]), 0xabcd);
}

TEST(AppendLittle, WritesLowByteFirst) {
    std::vector<std::uint8_t> out;
    append_little(out, std::uint32_t{0x01020304});
    append_little(out, std::uint8_t{9});
    EXPECT_EQ(out, (std::vector<std::uint8_t>{4, 3, 2, 1, 9}));
}

} // namespace
} // namespace reprise
