#include "core/base/host.hh"

#include "core/base/log.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/stat.h>

namespace reprise {

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

} // namespace reprise
