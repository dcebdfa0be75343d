#include "core/tree/event_loop.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"

#include <event2/event.h>

#include <memory>
#include <utility>

namespace reprise::tree {
namespace {

void call(evutil_socket_t /*fd*/, short /*what*/, void* action) {
    (*static_cast<Watch::Action*>(action))();
}

timeval to_timeval(Nanoseconds delay) {
    return {.tv_sec = delay / kSecond, .tv_usec = delay % kSecond / kMicrosecond};
}

event_base* new_base() {
    event_config* config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME);
    event_base* base = event_base_new_with_config(config);
    event_config_free(config);
    if (base == nullptr) {
        throw Error("libevent: no event base; is epoll available?");
    }
    event_base_priority_init(base, 3); // 1 is the default
    return base;
}

} // namespace

void EventDeleter::operator()(event* e) const { event_free(e); }

/// A connection that was freed with a callback put off until the next round lives until then: one
/// round more, which calls nobody, lets it go.
void EventDeleter::operator()(event_base* base) const {
    event_base_loop(base, EVLOOP_NONBLOCK);
    event_base_free(base);
}

EventLoop::EventLoop(const Clock& clock) : clock_(clock), base_(new_base()) {}

void EventLoop::run() { event_base_loop(base_.get(), EVLOOP_NO_EXIT_ON_EMPTY); }

void EventLoop::stop() { event_base_loopbreak(base_.get()); }

Watch::Watch(const EventLoop& loop, int fd, short what, Action action)
    : action_(std::make_unique<Action>(std::move(action))),
      event_(event_new(loop.base(), fd, what, call, action_.get())) {}

Watch Watch::every(const EventLoop& loop, Nanoseconds period, Action action) {
    Watch watch(loop, -1, EV_PERSIST, std::move(action));
    watch.again_in(period);
    return watch;
}

Watch Watch::timer(const EventLoop& loop, Action action) {
    Watch watch(loop, -1, 0, std::move(action));
    event_priority_set(watch.event_.get(), 2); // after input that is ready
    return watch;
}

Watch Watch::on_signal(const EventLoop& loop, int signal_number, Action action) {
    Watch watch(loop, signal_number, EV_SIGNAL | EV_PERSIST, std::move(action));
    event_add(watch.event_.get(), nullptr);
    return watch;
}

void Watch::again_in(Nanoseconds delay) {
    if (delay <= 0) {
        event_active(event_.get(), EV_TIMEOUT, 0); // without the system calls of a precise timer
        return;
    }
    const timeval time = to_timeval(delay);
    event_add(event_.get(), &time);
}

} // namespace reprise::tree
