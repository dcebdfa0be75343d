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
#include <csignal>
#include <ctime>
#include <exception>
#include <poll.h>
#include <string>
#include <utility>

namespace reprise::proxy {

namespace {

class Server {
public:
    Server(Service& service, const Signals& signals, const std::string& path)
        : service_(service), signals_(signals), path_(path) {}

    void run() {
        write(); // a path that cannot be written is told at once
        service_.tell_ready();
        next_second_ = SteadyClock::now() + kSecond;
        try {
            while (!stopped_) {
                turn();
            }
        } catch (const std::exception&) {
            write_or_warn(); // the error that ends the run is the one to tell
            throw;
        }
        service_.tell_end();
        write();
    }

private:
    /// Waits for whatever comes first and does what it brought.
    void turn() {
        std::array polls{pollfd{.fd = service_.fd(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
        const Nanoseconds until =
            std::min(next_second_, service_.next_due().value_or(next_second_));
        const Nanoseconds left = std::max<Nanoseconds>(until - SteadyClock::now(), 0);
        const timespec timeout{.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
        if (ppoll(polls.data(), polls.size(), &timeout, nullptr) < 0 && errno != EINTR) {
            throw SystemError("ppoll");
        }
        if (polls[0].revents != 0) {
            service_.readable();
        }
        const Nanoseconds now = SteadyClock::now();
        if (const auto due = service_.next_due(); due && *due <= now) {
            service_.tick(now);
        }
        if (polls[1].revents != 0) {
            handle_signals();
        }
        if (now >= next_second_) {
            next_second_ = now + kSecond;
            service_.each_second(now);
            write_or_warn();
        }
    }

    void handle_signals() {
        while (const auto number = signals_.next()) {
            if (*number == SIGHUP) {
                service_.reload();
            } else {
                stopped_ = true;
            }
        }
    }

    void write() {
        if (!path_.empty()) {
            write_whole(path_, service_.statistics());
        }
    }

    /// No run ends for its counts while it carries packets. Told once, until they can be written
    /// again.
    void write_or_warn() {
        try {
            write();
            unwritten_ = false;
        } catch (const std::exception& error) {
            if (!std::exchange(unwritten_, true)) {
                spdlog::warn("event=no_statistics because={} hint=\"make room there, or end the "
                             "run and give another --stats\"",
                             log_value(error.what()));
            }
        }
    }

    Service& service_;
    const Signals& signals_;
    const std::string& path_;
    Nanoseconds next_second_ = 0;
    bool unwritten_ = false; ///< the last counts could not be written
    bool stopped_ = false;
};

} // namespace

void serve(Service& service, const Signals& signals, const std::string& path) {
    Server(service, signals, path).run();
}

double cpu_seconds() {
    return static_cast<double>(read_clock(CLOCK_PROCESS_CPUTIME_ID)) / double{kSecond};
}

} // namespace reprise::proxy
