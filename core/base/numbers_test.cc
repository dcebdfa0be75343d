#include "core/base/numbers.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {
namespace {

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

} // namespace
} // namespace reprise
