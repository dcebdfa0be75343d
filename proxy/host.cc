#include "proxy/host.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/signals.hh"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <grp.h>
#include <linux/capability.h>
#include <optional>
#include <pwd.h>
#include <string>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace reprise::proxy {

Signals::Signals() {
    const sigset_t set = block_signals({SIGTERM, SIGINT, SIGQUIT, SIGHUP});
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

namespace {

/// The kernel says EINVAL to the first capability that it does not know.
void forbid_all_but(int kept) {
    for (int one = 0; prctl(PR_CAPBSET_READ, one, 0, 0, 0) >= 0; ++one) {
        if (one != kept) {
            check(prctl(PR_CAPBSET_DROP, one, 0, 0, 0), "prctl PR_CAPBSET_DROP (--user)");
        }
    }
}

/// libc has no function for it.
void keep_only(unsigned capability) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
    const std::uint32_t bit = CAP_TO_MASK(capability);
    data[CAP_TO_INDEX(capability)] = {.effective = bit, .permitted = bit, .inheritable = 0};
    check(static_cast<int>(syscall(SYS_capset, &header, data.data())), "capset (--user)");
}

} // namespace

void become(const std::string& user) {
    errno = 0;
    const passwd* const entry = getpwnam(user.c_str());
    if (entry == nullptr) {
        throw UsageError(
            fmt::format("--user {}: no such user on this host; give a user's name", user));
    }
    const std::string name = entry->pw_name;
    forbid_all_but(CAP_NET_ADMIN);
    check(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "prctl PR_SET_KEEPCAPS (--user)");
    check(initgroups(name.c_str(), entry->pw_gid), "initgroups (--user)");
    check(setgid(entry->pw_gid), "setgid (--user)");
    check(setuid(entry->pw_uid), "setuid (--user)");
    keep_only(CAP_NET_ADMIN);
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl PR_SET_NO_NEW_PRIVS (--user)");
}

} // namespace reprise::proxy
