#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "querier/distributor.hh"

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

namespace reprise::querier {
namespace {

constexpr int kControlFd = 3;
constexpr Nanoseconds kKillPatience = 200 * kMillisecond;

std::vector<std::string> arguments(const DistributorOptions& options, unsigned index) {
    std::vector<std::string> list{"reprise-querier", "query",
                                  "--control-fd",    std::to_string(kControlFd),
                                  "--run-id",        options.run,
                                  "--name",          options.name,
                                  "--index",         std::to_string(index),
                                  "--results",       options.results};
    if (!options.cpus.empty()) {
        list.emplace_back("--cpu");
        list.push_back(std::to_string(options.cpus[index % options.cpus.size()]));
    }
    list.insert(list.end(), options.querier_arguments.begin(), options.querier_arguments.end());
    return list;
}

/// Between fork and exec: only calls that are safe there. The signal mask is cleared; SIGINT and
/// SIGQUIT are the terminal's way to stop the whole group, but queriers stop when their distributor
/// says so.
[[noreturn]] void become_querier(int control, std::vector<char*>& argv) {
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    if (control == kControlFd) {
        fcntl(control, F_SETFD, 0);
    } else {
        dup2(control, kControlFd);
    }
    execv("/proc/self/exe", argv.data());
    _exit(127);
}

std::string ending(int status) {
    if (WIFSIGNALED(status)) {
        return fmt::format("querier process killed by signal {}", WTERMSIG(status));
    }
    const int code = WEXITSTATUS(status);
    return code <= 1 ? "" : fmt::format("querier process ended with status {}", code);
}

} // namespace

QuerierProcess start_querier(const DistributorOptions& options, unsigned index) {
    std::array<int, 2> pair{};
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), "socketpair");
    FileDescriptor ours(pair[0]);
    const FileDescriptor theirs(pair[1]);
    std::vector<std::string> list = arguments(options, index);
    std::vector<char*> argv;
    argv.reserve(list.size() + 1);
    for (std::string& argument : list) {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    const pid_t pid = check(fork(), "fork a querier");
    if (pid == 0) {
        become_querier(theirs.get(), argv);
    }
    return {.pid = pid, .control = std::move(ours)};
}

std::string reap(pid_t pid, Nanoseconds until, const Clock& clock) {
    int status = 0;
    bool killed = false;
    while (true) {
        const pid_t done = waitpid(pid, &status, WNOHANG);
        if (done == pid && !killed) {
            return ending(status);
        }
        if (done != 0) {
            return killed ? "querier process did not end and was killed"
                          : "querier process vanished";
        }
        const Nanoseconds late = clock.now() - until;
        if (late > kKillPatience) {
            return "querier process cannot be killed";
        }
        if (late > 0 && !std::exchange(killed, true)) {
            kill(pid, SIGKILL);
        }
        const timespec pause{.tv_sec = 0, .tv_nsec = 5 * kMillisecond};
        nanosleep(&pause, nullptr);
    }
}

} // namespace reprise::querier
