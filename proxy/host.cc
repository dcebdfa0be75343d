#include "proxy/host.hh"

#include "core/error.hh"
#include "core/fd.hh"
#include "core/log.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <grp.h>
#include <optional>
#include <pwd.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace reprise::proxy {

Signals::Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
        sigaddset(&set, number);
    }
    check(sigprocmask(SIG_BLOCK, &set, nullptr), "sigprocmask");
    fd_ = FileDescriptor(check(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), "signalfd"));
}

std::optional<int> Signals::next() const {
    signalfd_siginfo info{};
    if (read(fd_.get(), &info, sizeof info) != ssize_t{sizeof info}) {
        return std::nullopt;
    }
    return static_cast<int>(info.ssi_signo);
}

void set_timer_slack() { static_cast<void>(prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0)); }

void become(const std::string& user) {
    errno = 0;
    const passwd* const entry = getpwnam(user.c_str());
    if (entry == nullptr) {
        throw UsageError(
            fmt::format("--user {}: no such user on this host; give a user's name", user));
    }
    const std::string name = entry->pw_name;
    check(initgroups(name.c_str(), entry->pw_gid), "initgroups (--user)");
    check(setgid(entry->pw_gid), "setgid (--user)");
    check(setuid(entry->pw_uid), "setuid (--user)");
}

} // namespace reprise::proxy
