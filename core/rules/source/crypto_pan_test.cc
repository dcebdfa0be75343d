#include "core/base/address.hh"
#include "core/base/random.hh"
#include "core/rules/source/source_addresses.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>

// NOLINTBEGIN(bugprone-unchecked-optional-access)
namespace reprise::rules {
namespace {

/// The key of the authors' sample.
constexpr CryptoPan::Key kSample{21,  34, 23,  141, 51, 164, 207, 128, 19,  10,  91,
                                 22,  73, 144, 125, 16, 216, 152, 143, 131, 121, 121,
                                 101, 39, 98,  87,  76, 45,  42,  132, 34,  2};

CryptoPan::Key counting() {
    CryptoPan::Key key{};
    std::iota(key.begin(), key.end(), std::uint8_t{0});
    return key;
}

std::string mapped(CryptoPan& pan, const char* address) {
    return pan.map(*IpAddress::parse(address)).text();
}

size_t common_bits(const IpAddress& a, const IpAddress& b) {
    size_t bits = 0;
    while (bits < a.size() * 8 &&
           ((a.bytes.at(bits / 8) ^ b.bytes.at(bits / 8)) & (0x80U >> bits % 8)) == 0) {
        ++bits;
    }
    return bits;
}

IpAddress random_address(Random& random, std::uint8_t family) {
    IpAddress address{.bytes = {}, .family = family};
    for (size_t i = 0; i < address.size(); ++i) {
        address.bytes.at(i) = static_cast<std::uint8_t>(random.below(256));
    }
    return address;
}

TEST(CryptoPan, KnownAnswers) {
    CryptoPan sample(kSample);
    EXPECT_EQ(mapped(sample, "128.11.68.132"), "135.242.180.132");
    EXPECT_EQ(mapped(sample, "129.118.74.4"), "134.136.186.123");
    EXPECT_EQ(mapped(sample, "195.205.63.100"), "255.186.223.5");
    EXPECT_EQ(mapped(sample, "::1"), "78ff:f001:9fc0:20df:8380:b1f1:704:ed");
    CryptoPan other(counting());
    EXPECT_EQ(mapped(other, "192.0.2.1"), "2.90.93.17");
    EXPECT_EQ(mapped(other, "2001:db8::1"), "dd92:2c44:3fc0:ff1e:7ff9:c7f0:8180:7e00");
}

TEST(CryptoPan, KeepsCommonPrefixesAndNoMore) {
    CryptoPan pan(kSample);
    Random random(5);
    for (const std::uint8_t family : {std::uint8_t{4}, std::uint8_t{6}}) {
        for (int i = 0; i < 3000; ++i) {
            const IpAddress a = random_address(random, family);
            IpAddress b = random_address(random, family);
            const size_t shared = random.below(a.size() * 8);
            for (size_t bit = 0; bit < shared; ++bit) { // b gets a's first bits
                const auto mask = static_cast<std::uint8_t>(0x80U >> bit % 8);
                b.bytes.at(bit / 8) &= static_cast<std::uint8_t>(~mask);
                b.bytes.at(bit / 8) |= static_cast<std::uint8_t>(a.bytes.at(bit / 8) & mask);
            }
            ASSERT_EQ(common_bits(pan.map(a), pan.map(b)), common_bits(a, b)) << a.text();
        }
    }
}

TEST(CryptoPan, AnswersFromItsTableAreTheSame) {
    CryptoPan used(kSample);
    Random random(6);
    for (int i = 0; i < 100'000; ++i) { // more than the table holds
        used.map(random_address(random, 4));
    }
    EXPECT_EQ(mapped(used, "128.11.68.132"), "135.242.180.132");
    EXPECT_EQ(mapped(used, "128.11.68.132"), "135.242.180.132");
    EXPECT_EQ(used.map(IpAddress{}), IpAddress{});
}

} // namespace
} // namespace reprise::rules

// NOLINTEND(bugprone-unchecked-optional-access)
