#pragma once
// Time is a parameter everywhere else; only SteadyClock and realtime_pair() read a clock. Where a
// program must know the time, it is given a Clock, so that a test can play hours in a moment.

#include <cstdint>
#include <limits>
#include <time.h>

namespace reprise {

using Nanoseconds = std::int64_t;

inline constexpr Nanoseconds kMicrosecond = 1'000;
inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kSecond = 1'000'000'000;
inline constexpr Nanoseconds kForEver = std::numeric_limits<Nanoseconds>::max();

inline Nanoseconds read_clock(clockid_t id) {
    timespec now{};
    clock_gettime(id, &now);
    return now.tv_sec * kSecond + now.tv_nsec;
}

/// CLOCK_MONOTONIC, the clock of schedules and records.
struct SteadyClock {
    [[nodiscard]] static Nanoseconds now() { return read_clock(CLOCK_MONOTONIC); }
};

/// The same instant on both clocks, to convert the kernel's realtime stamps.
struct ClockPair {
    Nanoseconds monotonic = 0;
    Nanoseconds realtime = 0;

    /// A realtime stamp taken near this pair, as CLOCK_MONOTONIC.
    [[nodiscard]] Nanoseconds to_monotonic(Nanoseconds stamp) const {
        return stamp - realtime + monotonic;
    }

    /// Realtime minus monotonic; it jumps when the clock is stepped.
    [[nodiscard]] Nanoseconds offset() const { return realtime - monotonic; }
};

/// Samples both clocks; monotonic is the mean of readings on either side of the realtime one. Where
/// the process loses its processor between them they say nothing, so it tries again.
inline ClockPair realtime_pair() {
    constexpr Nanoseconds kClose = 2 * kMicrosecond;
    constexpr int kTries = 8;
    ClockPair best;
    Nanoseconds width = kForEver;
    for (int n = 0; n < kTries && width > kClose; ++n) {
        const Nanoseconds before = SteadyClock::now();
        const Nanoseconds real = read_clock(CLOCK_REALTIME);
        const Nanoseconds after = SteadyClock::now();
        if (after - before < width) {
            width = after - before;
            best = {.monotonic = before + width / 2, .realtime = real};
        }
    }
    return best;
}

/// What time it is.
class Clock {
public:
    virtual ~Clock() = default;

    /// CLOCK_MONOTONIC, the clock of schedules and records.
    [[nodiscard]] virtual Nanoseconds now() const = 0;

    /// This instant on both clocks.
    [[nodiscard]] virtual ClockPair pair() const = 0;
};

/// The kernel's clocks.
class SystemClock final : public Clock {
public:
    [[nodiscard]] Nanoseconds now() const override { return SteadyClock::now(); }

    [[nodiscard]] ClockPair pair() const override { return realtime_pair(); }
};

/// Where nothing else is given.
inline const Clock& system_clock() {
    static const SystemClock clock;
    return clock;
}

} // namespace reprise
