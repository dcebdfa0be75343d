#include "core/base/clock.hh"
#include "core/base/signals.hh"

#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <poll.h>

namespace reprise {
namespace {

bool readable(const Signals& signals) {
    pollfd one{.fd = signals.fd(), .events = POLLIN, .revents = 0};
    return poll(&one, 1, 0) == 1;
}

TEST(SignalsTest, WaitUntilTheyAreAskedFor) {
    const Signals signals{SIGUSR1, SIGHUP};
    EXPECT_FALSE(readable(signals));
    EXPECT_EQ(signals.next(), std::nullopt);
    ASSERT_EQ(raise(SIGUSR1), 0);
    EXPECT_TRUE(readable(signals));
    EXPECT_EQ(signals.next(), SIGUSR1);
    EXPECT_FALSE(readable(signals));
    ASSERT_EQ(raise(SIGHUP), 0);
    EXPECT_EQ(signals.next(kForEver), SIGHUP);
}

TEST(SignalsTest, NoneComesInTime) {
    const Signals signals{SIGUSR1};
    const Nanoseconds until = SteadyClock::now() + 2 * kMillisecond;
    EXPECT_EQ(signals.next(until), std::nullopt);
    EXPECT_GE(SteadyClock::now(), until);
}

TEST(SignalsTest, TheLastIsNoted) {
    note_signals({SIGUSR2});
    EXPECT_EQ(noted_signal(), 0);
    ASSERT_EQ(raise(SIGUSR2), 0);
    EXPECT_EQ(noted_signal(), SIGUSR2);
}

} // namespace
} // namespace reprise
