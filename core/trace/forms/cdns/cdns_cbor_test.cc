#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/trace/testing/cbor.hh"
#include "core/trace/testing/files.hh"
#include "core/trace/testing/packets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

/// A reader over bytes.
struct Source {
    explicit Source(const Buffer& bytes) : file(bytes), stream(file.path()), in(stream) {}

    ScratchFile file;
    ByteStream stream;
    CborReader in;
};

std::string error_of(const Buffer& bytes, auto&& read) {
    Source source(bytes);
    read(source.in);
    return source.in.error();
}

TEST(Cbor, NumbersOfEverySize) {
    const Buffer bytes = cbor(0) + cbor(23) + cbor(24) + cbor(256) + cbor(65'536) +
                         cbor(1LL << 40U) + cbor(-1) + cbor(-500);
    Source source(bytes);
    for (const std::int64_t expected :
         {0LL, 23LL, 24LL, 256LL, 65'536LL, 1LL << 40U, -1LL, -500LL}) {
        EXPECT_EQ(source.in.read(kCborNumber).number(), expected);
    }
    EXPECT_TRUE(source.in.ok());
    EXPECT_TRUE(source.in.at_end());
}

TEST(Cbor, StringsWholeAndInPieces) {
    Source source(cbor_text("abc") + hex("5f 41 61 42 6263 ff"));
    const Bytes whole = source.in.read(kCborString).bytes();
    const Bytes pieces = source.in.read(kCborString).bytes();
    EXPECT_EQ(std::string(whole.begin(), whole.end()), "abc");
    EXPECT_EQ(std::string(pieces.begin(), pieces.end()), "abc");
    EXPECT_TRUE(source.in.ok());
}

TEST(Cbor, MapsPassOverKeysThatAreNotNumbers) {
    Source source(hex("bf 01 02 61 78 82 01 02 20 05 18 64 06 ff"));
    const CborValue map = source.in.read(cbor_map_of(3));
    EXPECT_TRUE(source.in.ok()) << source.in.error();
    EXPECT_EQ(map[1].number(), 2);
    for (const std::int64_t key : {-1, 0, 2, 3, 100}) {
        EXPECT_FALSE(map[key]) << key;
    }
    EXPECT_EQ(map[0].number(7), 7);
}

TEST(Cbor, ValuesHaveTheirShape) {
    static constexpr CborShape kLists = cbor_array_of(kCborNumber);
    static constexpr std::array kParts{CborShape{}, kCborString, cbor_array_of(kLists)};
    static constexpr CborShape kMap = cbor_map_of(1, kParts);
    // 0: 5, 1: passed over, 2: "ab", 3: [[1, 2], [3, and then nothing
    Source source(hex("a4 00 05 01 a0 02 42 6162 03 82 82 01 02 82 03"));
    const CborValue map = source.in.read(kMap);
    EXPECT_THAT(source.in.error(), HasSubstr("the file ends within an item"));
    EXPECT_EQ(map[0].number(), 5);
    EXPECT_FALSE(map[1]);
    EXPECT_EQ(map[2].bytes().size(), 2U);
    ASSERT_EQ(map[3].size(), 1U) << "what is not whole is left out";
    EXPECT_EQ(map[3][0][map[3][0][0]].number(), 2);
}

TEST(Cbor, SkipsWholeItems) {
    Source source(hex("d8 2a 83 01 a1 02 9f 03 04 ff f6") + hex("9f ff") + hex("7f 61 61 ff") +
                  hex("fb 4009 21fb 5444 2d18") + cbor(99));
    for (int i = 0; i < 4; ++i) {
        source.in.read({});
    }
    EXPECT_EQ(source.in.read(kCborNumber).number(), 99);
    EXPECT_TRUE(source.in.ok()) << source.in.error();
}

TEST(Cbor, HostileLengthsTakeNoMemory) {
    const auto skip = [](CborReader& in) { in.read({}); };
    EXPECT_THAT(error_of(hex("5b ffffffffffffffff"), skip), HasSubstr("a string of over"));
    EXPECT_THAT(error_of(hex("5b 7fffffffffffffff 00"), skip), HasSubstr("a string of over"));
    EXPECT_THAT(error_of(hex("9b ffffffffffffffff 00"), skip), HasSubstr("ends within an item"));
    EXPECT_THAT(error_of(hex("bb ffffffffffffffff 00"), skip), HasSubstr("ends within an item"));
    for (const char* reserved : {"1c", "5e", "fd", "1f", "3f", "df"}) {
        EXPECT_THAT(error_of(hex(reserved), skip), HasSubstr("byte 0: not CBOR")) << reserved;
    }
    EXPECT_THAT(error_of(hex("ff"), skip), HasSubstr("an end without a beginning"));
}

TEST(Cbor, DepthIsLimited) {
    const auto skip = [](CborReader& in) { in.read({}); };
    EXPECT_THAT(error_of(Buffer(200'000, 0x81), skip), HasSubstr("nested too deeply"));
    EXPECT_THAT(error_of(Buffer(200'000, 0x9f), skip), HasSubstr("nested too deeply"));
    EXPECT_THAT(error_of(Buffer(200'000, 0xc1), skip), HasSubstr("ends within an item"));
}

TEST(Cbor, TheFirstErrorStays) {
    const std::string error = "byte 2: a whole number of 64 bits was expected";
    Source source(cbor_text("x"));
    EXPECT_EQ(source.in.read(kCborNumber).number(), 0);
    EXPECT_EQ(source.in.error(), error);
    source.in.read({});
    EXPECT_FALSE(source.in.read(cbor_map_of(1))[0]);
    EXPECT_EQ(source.in.error(), error);
}

} // namespace
} // namespace reprise::trace
