#include "core/tree/kernel_host.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/host.hh"
#include "core/tree/host.hh"
#include "core/wire/replay.pb.h"

#include <event2/event.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <sys/utsname.h>
#include <unistd.h>
#include <utility>

namespace reprise::tree {
namespace {

/// A timer, or a signal that calls each time it comes.
class Watch final : public Timer {
public:
    Watch(event_base* base, int signal_number, int what, std::function<void()> action)
        : action_(std::move(action)),
          event_(event_new(base, signal_number, static_cast<short>(what), call, this)) {}

    void again_in(Nanoseconds delay) override {
        if (delay <= 0) {
            event_active(event_.get(), EV_TIMEOUT, 0); // without a precise timer's system calls
            return;
        }
        const timeval time{.tv_sec = delay / kSecond, .tv_usec = delay % kSecond / kMicrosecond};
        event_add(event_.get(), &time);
    }

    [[nodiscard]] event* get() const { return event_.get(); }

private:
    static void call(evutil_socket_t /*fd*/, short /*what*/, void* self) {
        static_cast<Watch*>(self)->action_();
    }

    std::function<void()> action_;
    std::unique_ptr<event, EventDeleter> event_;
};

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

KernelHost::KernelHost() : base_(new_base()) {}

wire::Hello KernelHost::facts() const {
    wire::Hello hello;
    hello.set_boot_id(boot_id());
    hello.set_time_namespace(time_namespace());
    utsname name{};
    uname(&name);
    auto& facts = *hello.mutable_facts();
    facts["kernel"] = name.release;
    facts["machine"] = name.machine;
    facts["hostname"] = name.nodename;
    facts["processors"] = std::to_string(sysconf(_SC_NPROCESSORS_ONLN));
    facts["clocksource"] =
        first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    return hello;
}

std::unique_ptr<Timer> KernelHost::timer(Nanoseconds period, std::function<void()> action) {
    auto watch =
        std::make_unique<Watch>(base(), -1, period > 0 ? EV_PERSIST : 0, std::move(action));
    if (period > 0) {
        watch->again_in(period);
    } else {
        event_priority_set(watch->get(), 2); // after input that is ready
    }
    return watch;
}

void KernelHost::on_stop(std::function<void(const std::string&)> action) {
    for (const int number : {SIGINT, SIGTERM, SIGQUIT}) {
        auto watch = std::make_unique<Watch>(base(), number, EV_SIGNAL | EV_PERSIST, [=] {
            action(number == SIGINT ? "interrupted" : "terminated");
        });
        event_add(watch->get(), nullptr);
        signals_.push_back(std::move(watch));
    }
}

void KernelHost::run() { event_base_loop(base(), EVLOOP_NO_EXIT_ON_EMPTY); }

void KernelHost::stop() { event_base_loopbreak(base()); }

} // namespace reprise::tree
