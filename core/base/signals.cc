#include "core/base/signals.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <initializer_list>
#include <optional>
#include <signal.h> // NOLINT(modernize-deprecated-headers): sigaction is not in csignal
#include <sys/signalfd.h>

namespace reprise {

Signals::Signals(std::initializer_list<int> numbers) {
    sigemptyset(&set_);
    for (const int number : numbers) {
        sigaddset(&set_, number);
    }
    check(sigprocmask(SIG_BLOCK, &set_, nullptr), "sigprocmask");
    fd_ = FileDescriptor(check(signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC), "signalfd"));
}

std::optional<int> Signals::next(Nanoseconds until) const {
    while (true) {
        const Nanoseconds left = std::max<Nanoseconds>(until - SteadyClock::now(), 0);
        const timespec patience{.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
        const int number = sigtimedwait(&set_, nullptr, &patience);
        if (number > 0) {
            return number;
        }
        if (errno != EINTR) {
            return std::nullopt;
        }
    }
}

namespace {

volatile sig_atomic_t noted = 0;

extern "C" void note(int number) { noted = number; }

} // namespace

void note_signals(std::initializer_list<int> numbers) {
    struct sigaction action{};
    action.sa_handler = note; // without SA_RESTART
    sigemptyset(&action.sa_mask);
    for (const int number : numbers) {
        sigaction(number, &action, nullptr);
    }
}

int noted_signal() { return noted; }

} // namespace reprise
