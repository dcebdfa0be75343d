#include "zonebuilder/reconstruct/response.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace reprise::zonebuilder {
namespace {

using namespace std::string_view_literals; // NOLINT(google-build-using-namespace)

constexpr std::uint16_t kDs = 43;
constexpr std::uint16_t kDnskey = 48;
constexpr std::uint16_t kRrsig = 46;
constexpr std::uint16_t kNsec = 47;
constexpr std::uint16_t kNsec3 = 50;
constexpr std::uint16_t kNsec3param = 51;
constexpr std::uint16_t kHttps = 65;

TEST(RdataText, DataThatHoldsTogetherIsValid) {
    EXPECT_TRUE(is_valid_rdata(kDs, "\x12\x34\x0d\x02\xab\xcd"sv));
    EXPECT_TRUE(is_valid_rdata(kNsec3param, "\1\0\0\0\2\xaa\xbb"sv));
    EXPECT_TRUE(is_valid_rdata(kNsec3, "\1\0\0\0\1\xaa\2\x11\x22\0\1\x40"sv));
    EXPECT_TRUE(is_valid_rdata(kNsec3, "\1\0\0\0\0\5\1\2\3\4\5"sv)); // an empty non-terminal's
    EXPECT_TRUE(is_valid_rdata(kHttps, "\0\1\0\0\1\0\3\2h2"sv));
}

TEST(RdataText, DataThatEndsEarlyIsNot) {
    EXPECT_FALSE(is_valid_rdata(kDs, "\x12\x34\x0d"sv));
    EXPECT_FALSE(is_valid_rdata(kDnskey, "\1\1"sv));
    EXPECT_FALSE(is_valid_rdata(kNsec3param, "\1\0\0\0\x8f\xaa\xbb"sv));
    EXPECT_FALSE(is_valid_rdata(kNsec3, "\1\1\0\0\x8f\x14\x08\x44\0\1\x40"sv));
    EXPECT_FALSE(is_valid_rdata(kNsec3, "\1\0\0\0\0\x14\x11\x22"sv));
    EXPECT_FALSE(is_valid_rdata(kNsec3, "\1\0\0\0\0\0\0\1\x40"sv));
    EXPECT_FALSE(is_valid_rdata(kHttps, "\0\1\0\0\1\0\x30\2h2"sv));
}

TEST(RdataText, ListsHaveTypesThatServersKnowByName) {
    std::string out;
    EXPECT_TRUE(append_rdata(out, kNsec, "\1b\0\0\6\x40\x20\0\x80\0\3"sv)); // A NULL SIG RRSIG NSEC
    EXPECT_EQ(out, "b. A TYPE10 TYPE24 RRSIG NSEC");
}

TEST(RdataText, TimesThatAreNoDatesAreSeconds) {
    std::string out;
    const std::string_view before = "\0\1\x0f\1\0\0\0\x09"sv; // A 15 1 9
    const std::string_view after = "\0\1\1b\0\xaa"sv;         // 1 b.
    for (const std::string_view times :
         {"\x65\x53\xf1\0\x65\x53\xf1\0"sv, "\x65\x53\xf1\0\xff\xff\xff\xff"sv}) {
        std::string data(before);
        data += times;
        data += after;
        EXPECT_TRUE(is_valid_rdata(kRrsig, data));
        EXPECT_TRUE(append_rdata(out, kRrsig, data));
        out += '\n';
    }
    EXPECT_EQ(out, "A 15 1 9 20231114221320 20231114221320 1 b. qg==\n"
                   "A 15 1 9 1700000000 4294967295 1 b. qg==\n");
}

/// libknot reads beyond the end of some.
TEST(RdataText, DataOfAnyTypeMayBeAnything) {
    constexpr unsigned kRounds = 100;
    constexpr std::size_t kLongest = 40;
    std::mt19937 random(1); // NOLINT(cert-msc32-c,cert-msc51-cpp): the same every time
    unsigned valid = 0;
    // Without names, which are checked before.
    constexpr std::array<std::uint16_t, 36> kTypes{
        1,  13, 16, 19, 20, 22, 25, 28,  29,  37,  42,  43,  44,  48,  49,  50,  51,     52,
        53, 59, 60, 61, 62, 63, 99, 104, 105, 106, 108, 109, 256, 257, 258, 261, 32'768, 65'280};
    for (const std::uint16_t type : kTypes) {
        for (unsigned round = 0; round < kRounds; ++round) {
            std::string data(random() % kLongest, '\0');
            for (char& one : data) {
                one = static_cast<char>(random() % 3 == 0 ? random() % 16 : random());
            }
            valid += is_valid_rdata(type, data) ? 1U : 0U;
        }
    }
    EXPECT_GT(valid, 0U);
}

} // namespace
} // namespace reprise::zonebuilder
