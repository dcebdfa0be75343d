// The addresses that anonymize gives to sources.
#include "core/base/address.hh"
#include "core/base/random.hh"
#include "core/rules/testing/rules.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access)
namespace reprise::rules {
namespace {

/// The key of the authors' sample.
constexpr const char* kSample = "1522178d33a4cf80130a5b1649907d10d8988f837979652762574c2d2a842202";
constexpr const char* kCounting =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

std::vector<IpAddress> mapped(const std::string& key, const std::vector<IpAddress>& addresses) {
    std::vector<Owned> trace;
    for (const IpAddress& address : addresses) {
        trace.push_back(query_at(0));
        trace.back().source.address = address;
    }
    std::vector<IpAddress> out;
    for (const Owned& query : run("anonymize", key, trace)) {
        out.push_back(query.source.address);
    }
    return out;
}

std::string mapped(const std::string& key, const char* address) {
    return mapped(key, std::vector{*IpAddress::parse(address)}).at(0).text();
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
    EXPECT_EQ(mapped(kSample, "128.11.68.132"), "135.242.180.132");
    EXPECT_EQ(mapped(kSample, "129.118.74.4"), "134.136.186.123");
    EXPECT_EQ(mapped(kSample, "195.205.63.100"), "255.186.223.5");
    EXPECT_EQ(mapped(kSample, "::1"), "78ff:f001:9fc0:20df:8380:b1f1:704:ed");
    EXPECT_EQ(mapped(kCounting, "192.0.2.1"), "2.90.93.17");
    EXPECT_EQ(mapped(kCounting, "2001:db8::1"), "dd92:2c44:3fc0:ff1e:7ff9:c7f0:8180:7e00");
}

TEST(CryptoPan, KeepsCommonPrefixesAndNoMore) {
    Random random(5);
    for (const std::uint8_t family : {std::uint8_t{4}, std::uint8_t{6}}) {
        std::vector<IpAddress> pairs;
        for (int i = 0; i < 3000; ++i) {
            const IpAddress a = random_address(random, family);
            IpAddress b = random_address(random, family);
            const size_t shared = random.below(a.size() * 8);
            for (size_t bit = 0; bit < shared; ++bit) { // b gets a's first bits
                const auto mask = static_cast<std::uint8_t>(0x80U >> bit % 8);
                b.bytes.at(bit / 8) &= static_cast<std::uint8_t>(~mask);
                b.bytes.at(bit / 8) |= static_cast<std::uint8_t>(a.bytes.at(bit / 8) & mask);
            }
            pairs.push_back(a);
            pairs.push_back(b);
        }
        const auto out = mapped(kSample, pairs);
        for (size_t i = 0; i < pairs.size(); i += 2) {
            ASSERT_EQ(common_bits(out[i], out[i + 1]), common_bits(pairs[i], pairs[i + 1]));
        }
    }
}

TEST(CryptoPan, AnswersFromItsTableAreTheSame) {
    Random random(6);
    std::vector<IpAddress> addresses;
    addresses.reserve(100'003);
    for (int i = 0; i < 100'000; ++i) { // more than the table holds
        addresses.push_back(random_address(random, 4));
    }
    addresses.insert(addresses.end(), 2, *IpAddress::parse("128.11.68.132"));
    addresses.emplace_back();
    const auto out = mapped(kSample, addresses);
    EXPECT_EQ(out[100'000].text(), "135.242.180.132");
    EXPECT_EQ(out[100'001].text(), "135.242.180.132");
    EXPECT_EQ(out[100'002], IpAddress{});
}

} // namespace
} // namespace reprise::rules

// NOLINTEND(bugprone-unchecked-optional-access)
