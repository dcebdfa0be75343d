#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "proxy/delay/delay_model.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace reprise::proxy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A packet that tells which it is.
std::vector<std::uint8_t> packet(std::uint32_t number, size_t size = 60) {
    std::vector<std::uint8_t> bytes(size, static_cast<std::uint8_t>(number));
    for (unsigned i = 0; i < 4 && i < size; ++i) {
        bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
    }
    return bytes;
}

std::uint32_t number_of(Bytes bytes) {
    return bytes[0] | static_cast<std::uint32_t>(bytes[1] << 8U) |
           static_cast<std::uint32_t>(bytes[2] << 16U) | (std::uint32_t{bytes[3]} << 24U);
}

std::vector<std::uint32_t> popped(DelayLine& line, Nanoseconds now) {
    std::vector<std::uint32_t> numbers;
    line.pop_due(now,
                 [&](Nanoseconds /*due*/, Bytes bytes) { numbers.push_back(number_of(bytes)); });
    return numbers;
}

TEST(DelayLine, HandsOutWhatIsDueByTimeThenArrival) {
    DelayLine line;
    EXPECT_FALSE(line.next_due());
    line.push(30, packet(0));
    line.push(10, packet(1));
    line.push(20, packet(2));
    line.push(10, packet(3));
    EXPECT_EQ(line.next_due(), 10);
    EXPECT_THAT(popped(line, 9), IsEmpty());
    EXPECT_THAT(popped(line, 20), ElementsAre(1, 3, 2));
    EXPECT_EQ(line.next_due(), 30);
    EXPECT_THAT(popped(line, 1'000), ElementsAre(0));
    EXPECT_EQ(line.size(), 0U);
}

TEST(DelayLine, HandsOutNoMoreThanAskedFor) {
    DelayLine line;
    for (std::uint32_t i = 0; i < 5; ++i) {
        line.push(10, packet(i));
    }
    const auto nothing = [](Nanoseconds /*due*/, Bytes /*bytes*/) {};
    EXPECT_EQ(line.pop_due(10, nothing, 3), 3U);
    EXPECT_EQ(line.next_due(), 10);
    EXPECT_THAT(popped(line, 10), ElementsAre(3, 4));
}

TEST(DelayLine, KeepsOrderAgainstAStableSort) {
    std::mt19937 random(7);
    DelayLine line;
    std::vector<std::pair<Nanoseconds, std::uint32_t>> expected;
    for (std::uint32_t i = 0; i < 5'000; ++i) {
        const auto due = static_cast<Nanoseconds>(random() % 300);
        const auto bytes = packet(i, 4 + random() % 3'000);
        ASSERT_TRUE(line.push(due, bytes));
        expected.emplace_back(due, i);
    }
    std::ranges::sort(expected);
    size_t at = 0;
    for (Nanoseconds now = 0; now < 300; now += 7) {
        line.pop_due(now, [&](Nanoseconds due, Bytes bytes) {
            ASSERT_EQ(std::pair(due, number_of(bytes)), expected[at++]);
        });
    }
    const size_t left = line.size();
    EXPECT_EQ(line.pop_due(300, [](Nanoseconds, Bytes) {}), left);
    EXPECT_EQ(at + left, expected.size());
}

TEST(DelayLine, KeepsEverySizeWhole) {
    DelayLine line;
    const std::vector<size_t> sizes{4, 127, 128, 129, 1'500, 4'096, 65'535, 65'536};
    for (const size_t size : sizes) {
        ASSERT_TRUE(line.push(1, packet(static_cast<std::uint32_t>(size), size)));
    }
    size_t at = 0;
    line.pop_due(1, [&](Nanoseconds, Bytes bytes) {
        const auto expected = packet(static_cast<std::uint32_t>(sizes[at]), sizes[at]);
        EXPECT_TRUE(std::ranges::equal(bytes, expected));
        ++at;
    });
    EXPECT_EQ(at, sizes.size());
}

TEST(DelayLine, DropsAndCountsWhatIsTooMuch) {
    DelayLine few({.packets = 2, .bytes = 1 << 20});
    EXPECT_TRUE(few.push(1, packet(1)));
    EXPECT_TRUE(few.push(1, packet(2)));
    EXPECT_FALSE(few.push(0, packet(3)));
    EXPECT_THAT(popped(few, 1), ElementsAre(1, 2));
    EXPECT_TRUE(few.push(1, packet(4)));

    DelayLine small({.packets = 100, .bytes = 300});
    EXPECT_TRUE(small.push(1, packet(1, 241)));
    EXPECT_FALSE(small.push(1, packet(2)));
    EXPECT_THAT(popped(small, 1), ElementsAre(1));
    EXPECT_TRUE(small.push(1, packet(3, 300)));
}

} // namespace
} // namespace reprise::proxy
