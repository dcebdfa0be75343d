#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/trace/testing/cbor.hh"
#include "core/trace/testing/files.hh"
#include "core/trace/testing/packets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
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
        EXPECT_EQ(source.in.signed_number(), expected);
    }
    EXPECT_TRUE(source.in.ok());
    EXPECT_EQ(source.in.offset(), bytes.size());
}

TEST(Cbor, StringsWholeAndInPieces) {
    Source source(cbor_text("abc") + hex("5f 41 61 42 6263 ff"));
    Buffer out;
    source.in.string(out);
    source.in.string(out);
    EXPECT_EQ(std::string(out.begin(), out.end()), "abcabc");
    EXPECT_TRUE(source.in.ok());
}

TEST(Cbor, MapsPassOverKeysThatAreNotNumbers) {
    Source source(hex("bf 01 02 61 78 82 01 02 20 05 ff"));
    std::vector<std::int64_t> seen;
    source.in.map([&](std::int64_t key) {
        seen.push_back(key);
        seen.push_back(source.in.signed_number());
    });
    EXPECT_TRUE(source.in.ok()) << source.in.error();
    EXPECT_THAT(seen, ElementsAre(1, 2, -1, 5));
}

TEST(Cbor, SkipsWholeItems) {
    Source source(hex("d8 2a 83 01 a1 02 9f 03 04 ff f6") + hex("9f ff") + hex("7f 61 61 ff") +
                  hex("fb 4009 21fb 5444 2d18") + cbor(99));
    for (int i = 0; i < 4; ++i) {
        source.in.skip();
    }
    EXPECT_EQ(source.in.number(), 99U);
    EXPECT_TRUE(source.in.ok()) << source.in.error();
}

TEST(Cbor, HostileLengthsTakeNoMemory) {
    const auto skip = [](CborReader& in) { in.skip(); };
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
    const auto skip = [](CborReader& in) { in.skip(); };
    EXPECT_THAT(error_of(Buffer(1'000'000, 0x81), skip), HasSubstr("nested too deeply"));
    EXPECT_THAT(error_of(Buffer(1'000'000, 0x9f), skip), HasSubstr("nested too deeply"));
    EXPECT_THAT(error_of(Buffer(1'000'000, 0xc1), skip), HasSubstr("ends within an item"));
}

TEST(Cbor, TheFirstErrorStays) {
    Source source(cbor_text("x"));
    EXPECT_EQ(source.in.number(), 0U);
    EXPECT_EQ(source.in.error(), "byte 2: a number was expected");
    source.in.skip();
    source.in.map([](std::int64_t) { FAIL(); });
    EXPECT_EQ(source.in.error(), "byte 2: a number was expected");
}

} // namespace
} // namespace reprise::trace
