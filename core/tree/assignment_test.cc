#include "core/base/address.hh"
#include "core/tree/fanout.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::tree {
namespace {

IpAddress source(std::uint32_t number) {
    const std::array<std::uint8_t, 4> raw{10, static_cast<std::uint8_t>(number >> 16U),
                                          static_cast<std::uint8_t>(number >> 8U),
                                          static_cast<std::uint8_t>(number)};
    return IpAddress::v4(raw.data());
}

Assignment among(std::initializer_list<std::pair<const char*, double>> children) {
    Assignment assignment;
    for (const auto& [name, weight] : children) {
        assignment.add(name, weight);
    }
    return assignment;
}

TEST(Assignment, IsStickyAndSharesByWeight) {
    const Assignment assignment = among({{"a", 1}, {"b", 1}, {"c", 2}});
    std::vector<std::uint64_t> counts(3, 0);
    for (std::uint32_t i = 0; i < 40'000; ++i) {
        const size_t child = assignment.child_of(source(i));
        ASSERT_EQ(child, assignment.child_of(source(i)));
        ++counts[child];
    }
    EXPECT_NEAR(static_cast<double>(counts[0]), 10'000, 500);
    EXPECT_NEAR(static_cast<double>(counts[1]), 10'000, 500);
    EXPECT_NEAR(static_cast<double>(counts[2]), 20'000, 500);
}

TEST(Assignment, LosingAChildMovesOnlyItsSources) {
    const Assignment three = among({{"a", 1}, {"b", 1}, {"c", 1}});
    const Assignment two = among({{"a", 1}, {"b", 1}});
    for (std::uint32_t i = 0; i < 5'000; ++i) {
        const size_t before = three.child_of(source(i));
        if (before < 2) {
            EXPECT_EQ(two.child_of(source(i)), before);
        }
    }
}

TEST(Assignment, LevelsOfATreeAreIndependent) {
    const Assignment hosts = among({{"host1", 1}, {"host2", 1}});
    const Assignment queriers = among({{"host1/0", 1}, {"host1/1", 1}});
    std::vector<std::uint64_t> counts(2, 0);
    for (std::uint32_t i = 0; i < 20'000; ++i) {
        if (hosts.child_of(source(i)) == 0) {
            ++counts[queriers.child_of(source(i))];
        }
    }
    const double share =
        static_cast<double>(counts[0]) / static_cast<double>(counts[0] + counts[1]);
    EXPECT_NEAR(share, 0.5, 0.03);
}

TEST(Assignment, HeavySourcesAreSpread) {
    std::unordered_map<IpAddress, std::uint64_t> counts;
    for (std::uint32_t i = 0; i < 8; ++i) {
        counts[source(i)] = 1000;
    }
    for (std::uint32_t i = 100; i < 300; ++i) {
        counts[source(i)] = 1;
    }
    Assignment assignment = among({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}});
    assignment.place_heavy(counts);
    std::vector<std::uint64_t> load(4, 0);
    for (const auto& [address, count] : counts) {
        load[assignment.child_of(address)] += count;
    }
    EXPECT_LT(std::ranges::max(load), 1.05 * 8200 / 4);
}

TEST(Assignment, OneChildGetsAll) {
    const Assignment assignment = among({{"only", 3}});
    EXPECT_EQ(assignment.child_of(source(7)), 0U);
}

} // namespace
} // namespace reprise::tree
