#include "core/base/host.hh"

#include "core/base/error.hh"
#include "core/base/log.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <grp.h>
#include <initializer_list>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

namespace reprise {
namespace {

using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

/// libc has no functions for capget and capset.
void call(long number, Sets& sets, const char* attempt) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    check(static_cast<int>(syscall(number, &header, sets.data())), attempt);
}

/// The kernel says EINVAL to the first capability that it does not know.
void forbid_all_but(unsigned kept) {
    for (unsigned one = 0; prctl(PR_CAPBSET_READ, one, 0, 0, 0) >= 0; ++one) {
        if (one != kept) {
            check(prctl(PR_CAPBSET_DROP, one, 0, 0, 0), "prctl PR_CAPBSET_DROP (--user)");
        }
    }
}

} // namespace

std::string first_line(const char* path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string boot_id() { return first_line("/proc/sys/kernel/random/boot_id"); }

std::uint64_t time_namespace() {
    struct stat status{};
    return stat("/proc/self/ns/time", &status) == 0 ? status.st_ino : 0;
}

OwnUse own_use() {
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    OwnUse use{.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime),
               .max_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
    // That has the memory of whoever started the program too, until then. This has not.
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        std::uint64_t kilobytes = 0;
        if (word == "VmHWM:" && status >> kilobytes) {
            use.max_rss_bytes = kilobytes * 1024;
            break;
        }
    }
    return use;
}

std::string run_first() {
    const sched_param parameters{.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters) == 0) {
        return "";
    }
    const std::string why = std::strerror(errno);
    spdlog::warn("event=realtime_refused because={} hint=\"run as root\"", log_value(why));
    return fmt::format("realtime was refused ({}), other processes may have delayed packets; run "
                       "as root",
                       why);
}

/// A capability that is no longer permitted leaves the ambient set by itself.
void give_up(std::initializer_list<unsigned> capabilities) {
    if (geteuid() == 0) {
        return;
    }
    Sets sets{};
    call(SYS_capget, sets, "capget");
    for (const unsigned one : capabilities) {
        __user_cap_data_struct& part = sets.at(CAP_TO_INDEX(one));
        part.effective &= ~CAP_TO_MASK(one);
        part.permitted &= ~CAP_TO_MASK(one);
        part.inheritable &= ~CAP_TO_MASK(one);
    }
    call(SYS_capset, sets, "capset");
}

bool works_without(std::initializer_list<unsigned> capabilities,
                   const std::function<bool()>& attempt) {
    bool works = false;
    std::thread([&] { // capabilities are a thread's own
        give_up(capabilities);
        works = attempt();
    })
        .join();
    return works;
}

void become(const std::string& user, unsigned kept) {
    errno = 0;
    const passwd* const entry = getpwnam(user.c_str());
    if (entry == nullptr) {
        throw UsageError(
            fmt::format("--user {}: no such user on this host; give a user's name", user));
    }
    const std::string name = entry->pw_name;
    forbid_all_but(kept);
    check(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "prctl PR_SET_KEEPCAPS (--user)");
    check(initgroups(name.c_str(), entry->pw_gid), "initgroups (--user)");
    check(setgid(entry->pw_gid), "setgid (--user)");
    check(setuid(entry->pw_uid), "setuid (--user)");
    const std::uint32_t bit = CAP_TO_MASK(kept);
    Sets sets{};
    sets.at(CAP_TO_INDEX(kept)) = {.effective = bit, .permitted = bit, .inheritable = 0};
    call(SYS_capset, sets, "capset (--user)");
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl PR_SET_NO_NEW_PRIVS (--user)");
}

} // namespace reprise
