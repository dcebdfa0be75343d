#pragma once
// Time that passes only when the querier sleeps, and what happens in it.

#include "core/base/clock.hh"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reprise::querier::testing {

/// When the trace's first query is due, and 0 in transcripts: CLOCK_MONOTONIC is never 0, which
/// stands for "no time" in records.
inline constexpr Nanoseconds kStart = 1000 * kSecond;
inline constexpr Nanoseconds kRealStart = 1'600'000'000 * kSecond;

/// A clock and the things that will happen, in order of their times; those of one time in the order
/// they were added.
class Timeline final : public Clock {
public:
    [[nodiscard]] Nanoseconds now() const override { return now_; }

    [[nodiscard]] ClockPair pair() const override {
        return {.monotonic = now_, .realtime = now_ - kStart + kRealStart + stepped_};
    }

    /// How long before kStart it begins.
    void begin(Nanoseconds before) { now_ = kStart - before; }

    /// Somebody sets the realtime clock.
    void step_realtime(Nanoseconds by) { stepped_ += by; }

    void in(Nanoseconds delay, std::function<void()> action) {
        coming_.emplace(now_ + delay, std::move(action));
    }

    /// Whoever runs() from now on waits in there, and somebody else lets things happen.
    void give_to(std::function<void(Nanoseconds limit, const std::function<bool()>& enough)> wait) {
        wait_ = std::move(wait);
    }

    /// Lets happen what comes until `limit`, and stops as soon as `enough`. It is `limit` then, or
    /// the time of what was enough.
    template <typename Enough> void run(Nanoseconds limit, const Enough& enough) {
        if (wait_) {
            return wait_(limit, enough);
        }
        while (!enough() && !coming_.empty() && coming_.begin()->first <= limit) {
            step(limit);
        }
        if (!enough()) {
            now_ = std::max(now_, limit);
        }
    }

    /// Lets the next thing happen that comes until `limit`; where there is none it is `limit` then.
    void step(Nanoseconds limit) {
        if (coming_.empty() || coming_.begin()->first > limit) {
            now_ = std::max(now_, limit);
            return;
        }
        const auto next = coming_.extract(coming_.begin());
        now_ = std::max(now_, next.key());
        next.mapped()();
    }

    [[nodiscard]] bool empty() const { return coming_.empty(); }

    /// A line of the transcript.
    template <typename... Parts> void note(fmt::format_string<Parts...> format, Parts&&... parts) {
        transcript_.push_back(fmt::format("{:.6f} {}", static_cast<double>(now_ - kStart) / 1e9,
                                          fmt::format(format, std::forward<Parts>(parts)...)));
    }

    /// A line without a time.
    void say(std::string line) { transcript_.push_back(std::move(line)); }

    [[nodiscard]] const std::vector<std::string>& transcript() const { return transcript_; }

private:
    Nanoseconds now_ = kStart - kSecond;
    Nanoseconds stepped_ = 0;
    std::multimap<Nanoseconds, std::function<void()>> coming_;
    std::function<void(Nanoseconds, const std::function<bool()>&)> wait_;
    std::vector<std::string> transcript_;
};

/// What a host's clock says, whose CLOCK_MONOTONIC is `offset` later than the timeline.
class HostClock final : public Clock {
public:
    HostClock(const Timeline& timeline, Nanoseconds offset)
        : timeline_(timeline), offset_(offset) {}

    [[nodiscard]] Nanoseconds now() const override { return timeline_.now() + offset_; }

    [[nodiscard]] ClockPair pair() const override {
        return {.monotonic = now(), .realtime = timeline_.pair().realtime};
    }

    /// The timeline's time.
    [[nodiscard]] Nanoseconds back(Nanoseconds time) const {
        return time == std::numeric_limits<Nanoseconds>::max() ? time : time - offset_;
    }

private:
    const Timeline& timeline_;
    Nanoseconds offset_;
};

} // namespace reprise::querier::testing
