#include "core/base/checksum.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace reprise {
namespace {

TEST(Checksum, ExampleOfRfc1071) {
    const std::vector<std::uint8_t> data{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    Checksum sum;
    sum.add(data);
    EXPECT_EQ(sum.value(), static_cast<std::uint16_t>(~0xddf2U));
}

TEST(Checksum, OddSizeIsPaddedWithZero) {
    Checksum odd;
    odd.add(std::vector<std::uint8_t>{1, 2, 3});
    Checksum even;
    even.add(std::vector<std::uint8_t>{1, 2, 3, 0});
    EXPECT_EQ(odd.value(), even.value());
}

TEST(Checksum, NumbersCountAsTheirBytes) {
    Checksum bytes;
    bytes.add(std::vector<std::uint8_t>{0x12, 0x34, 0x12, 0x34, 0x00, 0x11});
    Checksum numbers;
    numbers.add(0x1234, 2);
    numbers.add(0x11);
    EXPECT_EQ(bytes.value(), numbers.value());
    std::array<std::uint8_t, 2> stored{};
    numbers.store(stored.data());
    EXPECT_EQ(stored[0] << 8U | stored[1], numbers.value());
    numbers.add(stored);
    EXPECT_EQ(numbers.value(), 0);
    numbers.store_udp(stored.data());
    EXPECT_EQ(stored, (std::array<std::uint8_t, 2>{0xff, 0xff}));
}

} // namespace
} // namespace reprise
