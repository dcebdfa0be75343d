#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/tree/host.hh"
#include "core/tree/kernel_host.hh"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::tree {
namespace {

constexpr Nanoseconds kKillPatience = 200 * kMillisecond;

/// Between fork and exec: only calls that are safe there. The signal mask is cleared; SIGINT and
/// SIGQUIT are the terminal's way to stop the whole group, but queriers stop when their distributor
/// says so.
[[noreturn]] void become_child(int control, std::vector<char*>& argv) {
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGQUIT, SIG_IGN);
    if (control == kControlFd) {
        fcntl(control, F_SETFD, 0);
    } else {
        dup2(control, kControlFd);
    }
    execv("/proc/self/exe", argv.data());
    _exit(127);
}

std::string ending_of(int status) {
    if (WIFSIGNALED(status)) {
        return fmt::format("querier process killed by signal {}", WTERMSIG(status));
    }
    const int code = WEXITSTATUS(status);
    return code <= 1 ? "" : fmt::format("querier process ended with status {}", code);
}

} // namespace

Host::Child KernelHost::start(std::vector<std::string> arguments) {
    std::array<int, 2> pair{};
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), "socketpair");
    FileDescriptor ours(pair[0]);
    const FileDescriptor theirs(pair[1]);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    const pid_t pid = check(fork(), "fork a querier");
    if (pid == 0) {
        become_child(theirs.get(), argv);
    }
    return {.pid = pid, .link = local(std::move(ours))};
}

void KernelHost::signal(pid_t child, int number) { kill(child, number); }

std::string KernelHost::reap(pid_t child, Nanoseconds until) {
    int status = 0;
    bool killed = false;
    while (true) {
        const pid_t done = waitpid(child, &status, WNOHANG);
        if (done == child && !killed) {
            return ending_of(status);
        }
        if (done != 0) {
            return killed ? "querier process did not end and was killed"
                          : "querier process vanished";
        }
        const Nanoseconds late = clock().now() - until;
        if (late > kKillPatience) {
            return "querier process cannot be killed";
        }
        if (late > 0 && !std::exchange(killed, true)) {
            kill(child, SIGKILL);
        }
        const timespec pause{.tv_sec = 0, .tv_nsec = 5 * kMillisecond};
        nanosleep(&pause, nullptr);
    }
}

} // namespace reprise::tree
