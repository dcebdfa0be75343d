#include "querier/schedule/waiter.hh"

#include "core/base/clock.hh"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::querier {
namespace {

constexpr Nanoseconds kShortestClass = 32 * kMicrosecond;
/// Before anything is learnt: what a sleep costs on common machines.
constexpr Nanoseconds kInitialWake = 40 * kMicrosecond;
constexpr Nanoseconds kInitialUntilSend = 2 * kMicrosecond;
/// One slow wake-up (the processor was taken away) must not count for more than this.
constexpr Nanoseconds kLongestLesson = 400 * kMicrosecond;
constexpr Nanoseconds kLongestHandover = 50 * kMicrosecond;
constexpr Nanoseconds kShortestSleep = kMicrosecond;
/// Timers nearer than this may expire before the process is asleep: they teach nothing.
constexpr Nanoseconds kShortestLesson = 5 * kMicrosecond;
/// Not worth another sleep.
constexpr Nanoseconds kCloseEnough = 3 * kMicrosecond;
constexpr std::array kRehearsals{10 * kMillisecond, 2 * kMillisecond, 500 * kMicrosecond,
                                 150 * kMicrosecond, 50 * kMicrosecond};
constexpr size_t kRehearsalRounds = 17;

} // namespace

void RunningMedian::add(Nanoseconds value) {
    values_[next_] = value;
    next_ = (next_ + 1) % kWindow;
    count_ = std::min(count_ + 1, kWindow);
    std::array<Nanoseconds, kWindow> copy = values_;
    const auto middle = copy.begin() + static_cast<std::ptrdiff_t>(count_ / 2);
    std::nth_element(copy.begin(), middle, copy.begin() + static_cast<std::ptrdiff_t>(count_));
    median_ = *middle;
}

size_t Waiter::class_of(Nanoseconds sleep) {
    const auto ratio = static_cast<std::uint64_t>(std::max<Nanoseconds>(sleep, 0) / kShortestClass);
    return std::min<size_t>(static_cast<size_t>(std::bit_width(ratio)), kClasses - 1);
}

Nanoseconds Waiter::early_for(Nanoseconds sleep) const {
    if (options_.early) {
        return *options_.early;
    }
    const Learnt& learnt = learnt_[class_of(sleep)];
    return learnt.wake.value_or(kInitialWake) + learnt.until_send.value_or(kInitialUntilSend) +
           learnt.handover.value_or(0);
}

Nanoseconds Waiter::wake_time(Nanoseconds now, Nanoseconds due) const {
    // Half the allowance, so that wake-ups earlier than usual still fit in it.
    return std::max(due - early_for(due - now) - options_.spin / 2, now + kShortestSleep);
}

Waiter::Action Waiter::decide(Nanoseconds now, Nanoseconds due) const {
    const Nanoseconds left = due - handover() - now;
    if (left <= 0) {
        return Action::kSend;
    }
    if (left <= options_.spin) {
        return Action::kSpin;
    }
    const Nanoseconds tolerance = options_.early ? *options_.early : early_for(left) / 2;
    return left <= std::max(tolerance, kCloseEnough) ? Action::kSend : Action::kSleep;
}

void Waiter::woke(Nanoseconds asleep, Nanoseconds timer, Nanoseconds awake) {
    no_lesson();
    if (timer - asleep < kShortestLesson) {
        return;
    }
    last_class_ = woken_ = class_of(timer - asleep);
    last_awake_ = awake;
    const Nanoseconds lateness = std::clamp<Nanoseconds>(awake - timer, 0, kLongestLesson);
    learnt_[*last_class_].wake.add(lateness);
}

void Waiter::sent_first(Nanoseconds send) {
    if (last_class_) {
        const Nanoseconds until_send =
            std::clamp<Nanoseconds>(send - last_awake_, 0, kLongestLesson);
        learnt_[*last_class_].until_send.add(until_send);
        last_class_.reset();
    }
}

void Waiter::handed_over(Nanoseconds took) {
    if (woken_) {
        learnt_[*woken_].handover.add(std::clamp<Nanoseconds>(took * 5 / 8, 0, kLongestHandover));
        woken_.reset();
    }
}

Nanoseconds Waiter::handover() const {
    return woken_ && !options_.early ? learnt_[*woken_].handover.value_or(0) : 0;
}

std::optional<Nanoseconds> Waiter::next_rehearsal() {
    if (options_.early || rehearsals_ == kRehearsalRounds * kRehearsals.size()) {
        return std::nullopt;
    }
    return kRehearsals[rehearsals_++ % kRehearsals.size()];
}

} // namespace reprise::querier
