#include "querier/carrier/poller.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace reprise::querier {

Poller::Poller()
    : epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      timer_(check(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create")) {
    add(timer_.get(), EPOLLIN, {});
}

void Poller::add(int fd, std::uint32_t events, EventTag tag) {
    epoll_event event{.events = events, .data = {.u64 = tag.pack()}};
    check(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl ADD");
}

void Poller::change(int fd, std::uint32_t events, EventTag tag) {
    epoll_event event{.events = events, .data = {.u64 = tag.pack()}};
    check(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event), "epoll_ctl MOD");
}

void Poller::arm(Nanoseconds wake) {
    if (wake == armed_) {
        return;
    }
    const itimerspec time{.it_interval = {},
                          .it_value = {.tv_sec = wake / kSecond, .tv_nsec = wake % kSecond}};
    check(timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr), "timerfd_settime");
    armed_ = wake;
}

std::span<const epoll_event> Poller::wait(Nanoseconds now, Nanoseconds wake) {
    const bool look = wake <= now;
    if (!look) {
        arm(wake);
    }
    const int found =
        epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), look ? 0 : -1);
    if (found < 0 && errno != EINTR) {
        throw SystemError("epoll_wait");
    }
    const auto count = static_cast<size_t>(std::max(found, 0));
    const auto timer =
        std::find_if(events_.begin(), events_.begin() + static_cast<ptrdiff_t>(count),
                     [](const epoll_event& e) { return e.data.u64 == 0; });
    timer_fired_ = timer != events_.begin() + static_cast<ptrdiff_t>(count);
    if (!timer_fired_) {
        return {events_.data(), count};
    }
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t got = read(timer_.get(), &expirations, sizeof expirations);
    armed_ = 0;
    std::swap(*timer, events_[count - 1]);
    return {events_.data(), count - 1};
}

} // namespace reprise::querier
