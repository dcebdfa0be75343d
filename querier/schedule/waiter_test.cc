#include "core/base/clock.hh"
#include "querier/schedule/waiter.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

namespace reprise::querier {
namespace {

/// A machine whose sleeps end late by what `lateness` says; plays queries `gap` apart and returns
/// their signed errors.
std::vector<Nanoseconds> play(Waiter& waiter, int queries, Nanoseconds gap,
                              const std::function<Nanoseconds(Nanoseconds)>& lateness) {
    std::vector<Nanoseconds> errors;
    Nanoseconds now = 0;
    for (int i = 1; i <= queries; ++i) {
        const Nanoseconds due = i * gap;
        for (Waiter::Action action = waiter.decide(now, due); action != Waiter::Action::kSend;
             action = waiter.decide(now, due)) {
            if (action == Waiter::Action::kSpin) {
                waiter.spun();
                now = due - waiter.handover();
                continue;
            }
            const Nanoseconds timer = waiter.wake_time(now, due);
            EXPECT_GT(timer, now);
            const Nanoseconds awake = timer + lateness(timer - now);
            waiter.woke(now, timer, awake);
            now = awake;
        }
        now += 2 * kMicrosecond; // the way to the send call
        waiter.sent_first(now);
        errors.push_back(now - due);
    }
    return errors;
}

Nanoseconds median(std::vector<Nanoseconds> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

std::vector<Nanoseconds> last_half(const std::vector<Nanoseconds>& values) {
    return {values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end()};
}

TEST(RunningMedian, FollowsTheLastValues) {
    RunningMedian median;
    EXPECT_EQ(median.value_or(7), 7);
    median.add(100);
    EXPECT_EQ(median.value_or(7), 100);
    for (int i = 0; i < 40; ++i) {
        median.add(i % 2 == 0 ? 10 : 12);
    }
    EXPECT_GE(median.value_or(7), 10);
    EXPECT_LE(median.value_or(7), 12);
}

TEST(Waiter, LearnsASteadyLateness) {
    Waiter waiter({});
    const auto errors =
        play(waiter, 200, 10 * kMillisecond, [](auto) { return 65 * kMicrosecond; });
    EXPECT_LE(std::abs(median(last_half(errors))), kMicrosecond);
}

TEST(Waiter, LearnsEachLengthOfSleepOnItsOwn) {
    Waiter waiter({});
    std::mt19937 random(3);
    const auto lateness = [&](Nanoseconds sleep) {
        const Nanoseconds base = sleep > kMillisecond ? 60 * kMicrosecond : 18 * kMicrosecond;
        return base + static_cast<Nanoseconds>(random() % 10'000);
    };
    play(waiter, 300, 10 * kMillisecond, lateness);
    play(waiter, 300, 200 * kMicrosecond, lateness);
    EXPECT_NEAR(static_cast<double>(waiter.early_for(10 * kMillisecond)), 67e3, 3e3);
    EXPECT_NEAR(static_cast<double>(waiter.early_for(150 * kMicrosecond)), 25e3, 3e3);
}

TEST(Waiter, CentresANoisyErrorOnZero) {
    Waiter waiter({});
    std::mt19937 random(5);
    const auto errors = play(waiter, 2000, 10 * kMillisecond, [&](Nanoseconds sleep) {
        const Nanoseconds spread = sleep > kMillisecond ? 40'000 : 10'000;
        return 20'000 + static_cast<Nanoseconds>(random()) % spread;
    });
    EXPECT_LE(std::abs(median(last_half(errors))), 12 * kMicrosecond);
}

TEST(Waiter, OneLostProcessorDoesNotTeach) {
    Waiter waiter({});
    int count = 0;
    play(waiter, 200, 10 * kMillisecond,
         [&](auto) { return ++count % 10 == 0 ? 4 * kMillisecond : 50 * kMicrosecond; });
    EXPECT_NEAR(static_cast<double>(waiter.early_for(10 * kMillisecond)), 52e3, 2e3);
}

TEST(Waiter, SpinsOnlyWithinItsAllowance) {
    Waiter waiter({.early = 50 * kMicrosecond, .spin = 20 * kMicrosecond});
    EXPECT_EQ(waiter.decide(0, 20 * kMicrosecond), Waiter::Action::kSpin);
    EXPECT_EQ(waiter.decide(0, 80 * kMicrosecond), Waiter::Action::kSleep);
    EXPECT_EQ(waiter.wake_time(0, kMillisecond), 940 * kMicrosecond);
    EXPECT_EQ(waiter.decide(5, 5), Waiter::Action::kSend);
}

TEST(Waiter, SpinningMeetsTheTime) {
    Waiter waiter({.early = {}, .spin = 30 * kMicrosecond});
    std::mt19937 random(7);
    const auto errors = play(waiter, 1000, 5 * kMillisecond, [&](auto) {
        return 40'000 + static_cast<Nanoseconds>(random() % 20'000);
    });
    EXPECT_LE(std::abs(median(last_half(errors))), 3 * kMicrosecond);
}

TEST(Waiter, TheQueryIsOnItsWayWhenItIsDue) {
    for (const Nanoseconds spin : {Nanoseconds{0}, 30 * kMicrosecond}) {
        Waiter waiter({.early = {}, .spin = spin});
        Nanoseconds now = 0;
        Nanoseconds error = 0;
        for (int i = 1; i <= 100; ++i) {
            const Nanoseconds due = Nanoseconds{i} * 10 * kMillisecond;
            const Nanoseconds timer = waiter.wake_time(now, due);
            waiter.woke(now, timer, timer + 60 * kMicrosecond);
            now = timer + 60 * kMicrosecond;
            if (waiter.decide(now, due) == Waiter::Action::kSpin) {
                waiter.spun();
                now = due - waiter.handover();
            }
            waiter.sent_first(now);
            error = now + 7500 - due;
            now += 12 * kMicrosecond;
            waiter.handed_over(12 * kMicrosecond);
        }
        EXPECT_LE(std::abs(error), kMicrosecond) << spin;
    }
}

TEST(Waiter, FixedEarlinessIsNotLearnt) {
    Waiter waiter({.early = 0, .spin = 0});
    waiter.woke(0, kMillisecond, kMillisecond + 90 * kMicrosecond);
    EXPECT_EQ(waiter.early_for(kMillisecond), 0);
    EXPECT_FALSE(waiter.next_rehearsal());
}

TEST(Waiter, RehearsalsEnd) {
    Waiter waiter({});
    Nanoseconds total = 0;
    while (const auto sleep = waiter.next_rehearsal()) {
        total += *sleep;
    }
    EXPECT_LT(total, 300 * kMillisecond);
}

} // namespace
} // namespace reprise::querier
