#include "proxy/service.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "core/base/output_file.hh"
#include "core/base/signals.hh"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <exception>
#include <poll.h>
#include <string>
#include <utility>

namespace reprise::proxy {

namespace {

void write_counts(Service& service, const std::string& path) {
    if (!path.empty()) {
        write_whole(path, service.statistics());
    }
}

/// No run ends for its counts while it carries packets. Told once, until they can be written again.
void write_or_warn(Service& service, const std::string& path, bool& unwritten) {
    try {
        write_counts(service, path);
        unwritten = false;
    } catch (const std::exception& error) {
        if (!std::exchange(unwritten, true)) {
            spdlog::warn("event=no_statistics because={} hint=\"make room there, or end the run "
                         "and give another --stats\"",
                         log_value(error.what()));
        }
    }
}

/// Waits for whatever comes first and does what it brought; whether the run goes on.
bool turn(Service& service, const Signals& signals, Nanoseconds next_second) {
    std::array polls{pollfd{.fd = service.fd(), .events = POLLIN, .revents = 0},
                     pollfd{.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    const Nanoseconds until = std::min(next_second, service.next_due().value_or(next_second));
    const Nanoseconds left = std::max<Nanoseconds>(until - SteadyClock::now(), 0);
    const timespec timeout{.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
    if (ppoll(polls.data(), polls.size(), &timeout, nullptr) < 0 && errno != EINTR) {
        throw SystemError("ppoll");
    }
    if (polls[0].revents != 0) {
        service.readable();
    }
    const Nanoseconds now = SteadyClock::now();
    if (const auto due = service.next_due(); due && *due <= now) {
        service.tick(now);
    }
    return polls[1].revents == 0;
}

} // namespace

void serve(Service& service, const Signals& signals, const std::string& path) {
    write_counts(service, path); // a path that cannot be written is told at once
    service.tell_ready();
    bool unwritten = false; // the last counts could not be written
    Nanoseconds next_second = SteadyClock::now() + kSecond;
    try {
        while (turn(service, signals, next_second)) {
            if (const Nanoseconds now = SteadyClock::now(); now >= next_second) {
                next_second = now + kSecond;
                service.each_second(now);
                write_or_warn(service, path, unwritten);
            }
        }
    } catch (const std::exception&) {
        write_or_warn(service, path, unwritten); // the error that ends the run is the one to tell
        throw;
    }
    service.tell_end();
    write_counts(service, path);
}

double cpu_seconds() {
    return static_cast<double>(read_clock(CLOCK_PROCESS_CPUTIME_ID)) / double{kSecond};
}

} // namespace reprise::proxy
