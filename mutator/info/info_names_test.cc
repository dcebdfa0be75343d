#include "mutator/info/trace_info.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace reprise::mutator {
namespace {

TEST(TopKeys, AreExactWhileThereAreFew) {
    TopKeys keys(4);
    for (const char* key : {"a", "b", "b", "c", "d", "e", "f", "g", "h", "h"}) {
        keys.add(key);
    }
    EXPECT_EQ(keys.error(), 0U);
    EXPECT_EQ(keys.size(), 8U);
    const auto top = keys.top(3);
    ASSERT_EQ(top.size(), 3U);
    EXPECT_EQ(top[0].first, "b"); // ties by key
    EXPECT_EQ(top[1].first, "h");
    EXPECT_EQ(top[2].first, "a");
    EXPECT_EQ(top[0].second, 2U);
}

/// Many keys, half of them one of a hundred frequent ones.
TEST(TopKeys, StayWithinTheirErrorAndMemory) {
    constexpr size_t kKept = 1'000;
    constexpr std::uint64_t kAll = 100'000;
    TopKeys keys(kKept);
    std::map<std::string, std::uint64_t> truth;
    std::mt19937 random(1); // NOLINT(bugprone-random-generator-seed): the same in every run
    for (std::uint64_t i = 0; i < kAll; ++i) {
        const bool frequent = i % 2 == 0;
        const std::string key = std::to_string(frequent ? random() % 100 : 1'000 + random());
        keys.add(key);
        ++truth[key];
    }
    EXPECT_GT(keys.error(), 0U);
    EXPECT_LE(keys.error(), kAll / kKept);
    EXPECT_LE(keys.size(), 2 * kKept);
    const auto top = keys.top(100);
    for (const auto& [key, count] : top) {
        EXPECT_LE(count, truth[key]);
        EXPECT_GE(count + keys.error(), truth[key]);
        EXPECT_LE(key.size(), 2U) << "not one of the frequent ones";
    }
}

std::uint64_t hash(const std::string& key) { return XXH3_64bits(key.data(), key.size()); }

TEST(DistinctSketch, IsWithinItsErrorFromNoneToAMillion) {
    DistinctSketch sketch;
    EXPECT_EQ(sketch.estimate(), 0U);
    std::uint64_t added = 0;
    for (const std::uint64_t count : {1'000U, 10'000U, 60'000U, 300'000U, 1'000'000U}) {
        for (; added < count; ++added) {
            sketch.add(hash("name " + std::to_string(added)));
            sketch.add(hash("name " + std::to_string(added / 2))); // which is there already
        }
        EXPECT_NEAR(static_cast<double>(sketch.estimate()), static_cast<double>(count),
                    3 * DistinctSketch::kStandardError * static_cast<double>(count));
    }
}

TEST(TopKeys, TellHowManyThereAreWhenMostAreForgotten) {
    TopKeys keys(1'000);
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        keys.add(std::to_string(i));
    }
    EXPECT_LE(keys.size(), 2'000U);
    EXPECT_NEAR(static_cast<double>(keys.distinct()), 100'000, 2'500);
}

} // namespace
} // namespace reprise::mutator
