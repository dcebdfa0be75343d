#include "core/base/clock.hh"
#include "querier/schedule/backlog.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

std::vector<std::uint64_t> drain(Schedule& schedule) {
    std::vector<std::uint64_t> order;
    for (; !schedule.empty(); schedule.pop()) {
        order.push_back(schedule.front().what);
    }
    return order;
}

TEST(Schedule, KeepsASortedTraceInItsOrder) {
    Schedule schedule;
    std::vector<std::uint64_t> expected;
    for (std::uint32_t i = 0; i < 5000; ++i) {
        schedule.push(Nanoseconds{i} * 10, i);
        expected.push_back(i);
    }
    EXPECT_EQ(drain(schedule), expected);
}

TEST(Schedule, PutsStragglersInTheirPlace) {
    Schedule schedule;
    schedule.push(10, 0);
    schedule.push(30, 1);
    schedule.push(20, 2);
    schedule.push(5, 3);
    schedule.push(30, 4);
    EXPECT_EQ(drain(schedule), (std::vector<std::uint64_t>{3, 0, 2, 1, 4}));
}

TEST(Schedule, EqualTimesLeaveInTheOrderOfArrival) {
    Schedule schedule;
    for (std::uint32_t i = 0; i < 4; ++i) {
        schedule.push(7, i);
    }
    schedule.push(9, 4);
    schedule.push(7, 5);
    schedule.push(9, 6);
    EXPECT_EQ(drain(schedule), (std::vector<std::uint64_t>{0, 1, 2, 3, 5, 4, 6}));
}

TEST(Schedule, SortsAnyOrderWithPopsBetween) {
    Schedule schedule;
    std::mt19937 random(1);
    std::vector<std::pair<Nanoseconds, std::uint64_t>> model;
    for (std::uint32_t i = 0; i < 20000; ++i) {
        const auto time = static_cast<Nanoseconds>(random() % 1000 + i / 10);
        schedule.push(time, i);
        model.emplace_back(time, i);
        if (random() % 3 == 0) {
            const auto least = std::ranges::min_element(model);
            EXPECT_EQ(schedule.front().what, least->second);
            schedule.pop();
            *least = model.back();
            model.pop_back();
        }
        if (model.size() > 200) {
            model.clear();
            drain(schedule);
        }
    }
    std::ranges::sort(model);
    for (const auto& [time, pending] : model) {
        EXPECT_EQ(schedule.front().what, pending);
        schedule.pop();
    }
    EXPECT_TRUE(schedule.empty());
}

} // namespace
} // namespace reprise::querier
