#pragma once
// Owning wrappers around libevent. The loop uses precise timers and no cached time: libevent's
// defaults are as coarse as the kernel's tick (4 ms).

#include "core/base/clock.hh"

#include <functional>
#include <memory>

struct event;
struct event_base;

namespace reprise::tree {

struct EventDeleter {
    void operator()(event* e) const;
    void operator()(event_base* base) const;
};

class EventLoop {
public:
    /// `clock` is what everybody on this loop reads, and must outlive it. Timers are the kernel's.
    explicit EventLoop(const Clock& clock = system_clock());

    [[nodiscard]] const Clock& clock() const { return clock_; }

    [[nodiscard]] event_base* base() const { return base_.get(); }

    /// Runs until stop().
    void run();
    void stop();

private:
    const Clock& clock_;
    std::unique_ptr<event_base, EventDeleter> base_;
};

/// A timer, a signal or a readable descriptor that calls back until destroyed.
class Watch {
public:
    using Action = std::function<void()>;

    /// Calls every `period`.
    static Watch every(const EventLoop& loop, Nanoseconds period, Action action);
    /// Calls when armed with again_in(), once each time.
    static Watch timer(const EventLoop& loop, Action action);
    static Watch on_signal(const EventLoop& loop, int signal_number, Action action);

    /// Arms a timer(); a second call replaces the first.
    void again_in(Nanoseconds delay);

private:
    Watch(const EventLoop& loop, int fd, short what, Action action);

    std::unique_ptr<Action> action_;
    std::unique_ptr<event, EventDeleter> event_;
};

} // namespace reprise::tree
