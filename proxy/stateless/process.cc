#include "proxy/stateless/process.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "proxy/host.hh"
#include "proxy/stateless/common/counters.hh"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/fronts.hh"
#include "proxy/statistics.hh"
#include "proxy/statistics_file.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <exception>
#include <memory>
#include <net/if.h>
#include <poll.h>
#include <string>
#include <vector>

namespace reprise::proxy {

namespace {

unsigned index_of(const std::string& interface) {
    const unsigned index = if_nametoindex(interface.c_str());
    if (index == 0) {
        throw UsageError(fmt::format("--interface {}: this host has no such interface; `ip link` "
                                     "lists those it has",
                                     interface));
    }
    return index;
}

spdlog::level::level_enum log_level(unsigned loglevel) {
    return loglevel >= 3 ? spdlog::level::debug : spdlog::level::info;
}

class StatelessProcess {
public:
    explicit StatelessProcess(const StatelessOptions& options)
        : options_(options), index_(index_of(options.interface)), started_(SteadyClock::now()),
          next_second_(started_ + kSecond), front_(make_front(options)),
          file_(options.stats, [this] { return json(); }) {}

    /// Until a signal ends it.
    void run() {
        file_.write(); // a path that cannot be written is told at once
        tell_ready();
        try {
            while (!stopped_) {
                turn();
            }
        } catch (const std::exception&) {
            file_.write_or_warn(); // the error that ends the run is the one to tell
            throw;
        }
        const Counters counters = front_->counters();
        spdlog::info("event=end syn={} queries={} replies={} segments={} malformed={}",
                     counters.syn, counters.queries, counters.replies, counters.segments,
                     counters.malformed);
        file_.write();
    }

private:
    [[nodiscard]] std::string json() const {
        return to_json(front_->counters(), options_, SteadyClock::now() - started_, cpu_seconds());
    }

    void tell_ready() const {
        if (options_.front == FrontKind::kReference && !options_.active) {
            spdlog::info("event=inactive front={} interface={} hint=\"the kernel's TCP serves; "
                         "give --active 1\"",
                         front_name(options_.front), options_.interface);
        } else {
            spdlog::info("event=ready front={} interface={}", front_name(options_.front),
                         options_.interface);
        }
    }

    /// Waits for whatever comes first and does what it brought.
    void turn() {
        wait();
        if (polls_[0].revents != 0) {
            handle_signals();
        }
        const auto ready = [](const pollfd& each) { return each.revents != 0; };
        if (std::any_of(polls_.begin() + 1, polls_.end(), ready)) {
            front_->readable();
        }
        const Nanoseconds now = SteadyClock::now();
        if (const auto due = front_->next_due(); due && *due <= now) {
            front_->tick(now);
        }
        if (now >= next_second_) {
            next_second_ = now + kSecond;
            look_for_interface();
            front_->tick(now);
            tell_second();
            file_.write_or_warn();
        }
    }

    void wait() {
        polls_.assign(1, {.fd = signals_.fd(), .events = POLLIN, .revents = 0});
        for (const int fd : front_->descriptors()) {
            polls_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
        }
        const Nanoseconds until = std::min(next_second_, front_->next_due().value_or(next_second_));
        const Nanoseconds left = std::max<Nanoseconds>(until - SteadyClock::now(), 0);
        const timespec timeout{.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
        if (ppoll(polls_.data(), polls_.size(), &timeout, nullptr) < 0) {
            if (errno != EINTR) {
                throw SystemError("ppoll");
            }
            std::ranges::for_each(polls_, [](pollfd& each) { each.revents = 0; });
        }
    }

    /// One of the same name that is made anew is not what the front was set up on.
    void look_for_interface() const {
        if (if_nametoindex(options_.interface.c_str()) != index_) {
            throw Error(fmt::format("interface {} has vanished, and the front with it; start it "
                                    "again when the interface is back",
                                    options_.interface));
        }
    }

    void handle_signals() {
        while (const auto number = signals_.next()) {
            stopped_ = stopped_ || *number != SIGHUP;
        }
    }

    /// From log level 2.
    void tell_second() {
        if (options_.loglevel < 2) {
            return;
        }
        const Counters now = front_->counters();
        spdlog::info("event=second syn={} queries={} replies={} fin={} rst={} in_flight={}",
                     now.syn - told_.syn, now.queries - told_.queries, now.replies - told_.replies,
                     now.fin - told_.fin, now.rst - told_.rst, now.entries);
        told_ = now;
    }

    const StatelessOptions& options_;
    unsigned index_;
    Signals signals_;
    Nanoseconds started_;
    Nanoseconds next_second_;
    std::unique_ptr<Front> front_;
    StatisticsFile file_;
    std::vector<pollfd> polls_;
    Counters told_; ///< what the line of the last second has counted
    bool stopped_ = false;
};

} // namespace

int run_stateless(const StatelessOptions& options) {
    spdlog::set_level(log_level(options.loglevel));
    if (options.undo) {
        undo_killed_front(options);
        return 0;
    }
    StatelessProcess(options).run();
    return 0;
}

} // namespace reprise::proxy
