#include "core/base/realtime.hh"

#include "core/base/log.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstring>
#include <sched.h>
#include <string>

namespace reprise {

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
