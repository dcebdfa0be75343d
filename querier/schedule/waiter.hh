#pragma once
// How to be on time although sleeping is not.
//
// Problem: a sleeping process runs again only some time after its timer fired. On virtual machines
// that time depends on how deeply the processor slept: about 65 us after 10 ms of sleep, about 20
// us after 0.1 ms. All of it would be lateness.
//
// Idea: the lateness is fairly steady for sleeps of one length, so it is learnt: a running median
// for each class of sleep length (powers of two), and the timer is set that much before the due
// time. The error then centres on zero. What is measured is the wake-up (time after the sleep minus
// the timer's time), the way from there to the send call, and how long that call took: a packet is
// on its way a little over half way through the call, and after a long sleep, with cold caches,
// that makes 10 to 20 us.
//
// Awake too early: spin when what is left fits in the allowance for spinning; else send when
// sending now misses by less than another sleep would, which is half the learnt lateness of so
// short a sleep; else sleep again.
//
// Time is a parameter throughout; the caller reads the clock.

#include "core/base/clock.hh"
#include "querier/carrier/replay_options.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::querier {

/// Median of the last few values.
class RunningMedian {
public:
    void add(Nanoseconds value);

    /// `initial` until there are values.
    [[nodiscard]] Nanoseconds value_or(Nanoseconds initial) const {
        return count_ == 0 ? initial : median_;
    }

private:
    static constexpr size_t kWindow = 33;

    std::array<Nanoseconds, kWindow> values_{};
    size_t count_ = 0;
    size_t next_ = 0;
    Nanoseconds median_ = 0;
};

class Waiter {
public:
    enum class Action : std::uint8_t { kSend, kSpin, kSleep };

    explicit Waiter(WaiterOptions options) : options_(options) {}

    /// What to do at `now` about a query due at `due`.
    [[nodiscard]] Action decide(Nanoseconds now, Nanoseconds due) const;

    /// When the timer should fire so that a query due at `due` leaves on time; always after `now`.
    [[nodiscard]] Nanoseconds wake_time(Nanoseconds now, Nanoseconds due) const;

    /// The process fell asleep at `asleep` with its timer at `timer` and was woken by it at
    /// `awake`.
    void woke(Nanoseconds asleep, Nanoseconds timer, Nanoseconds awake);

    /// Something else than the timer woke it: nothing to learn from the next send.
    void no_lesson() {
        last_class_.reset();
        woken_.reset();
    }

    /// It spun: when it sends says nothing of the wake-up.
    void spun() { last_class_.reset(); }

    /// It sent its first query at `send`, directly after the last wake-up.
    void sent_first(Nanoseconds send);

    /// The send call after the last wake-up took so long, for one query, which was on its way a
    /// little over half way through.
    void handed_over(Nanoseconds took);

    /// How long the next send call is expected to need until the query is on its way: to be called
    /// so much before it is due.
    [[nodiscard]] Nanoseconds handover() const;

    /// Learnt time between timer and send for a sleep of that length.
    [[nodiscard]] Nanoseconds early_for(Nanoseconds sleep) const;

    /// Sleep lengths to try before the start, so that the first queries are on time as well;
    /// nothing when enough is known.
    std::optional<Nanoseconds> next_rehearsal();

private:
    /// Class k: sleeps shorter than 32 us << k; the last one takes all longer ones.
    static constexpr size_t kClasses = 12;

    struct Learnt {
        RunningMedian wake;
        RunningMedian until_send;
        RunningMedian handover;
    };

    static size_t class_of(Nanoseconds sleep);

    WaiterOptions options_;
    std::array<Learnt, kClasses> learnt_{};
    Nanoseconds last_awake_ = 0;
    std::optional<size_t> last_class_; ///< of the last wake-up, until its first send
    std::optional<size_t> woken_;      ///< the same, until its first send call has ended
    size_t rehearsals_ = 0;
};

} // namespace reprise::querier
