#include "core/base/progress.hh"

#include "core/base/clock.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>

namespace reprise {
namespace {

constexpr Nanoseconds kInterval = 5 * kSecond;

} // namespace

double Progress::elapsed_s() const {
    return static_cast<double>(SteadyClock::now() - started_) / 1e9;
}

void Progress::look(std::uint64_t done, double part) {
    if (check_ != nullptr) {
        check_();
    }
    const Nanoseconds elapsed = SteadyClock::now() - started_;
    if (elapsed - printed_ < kInterval) {
        return;
    }
    printed_ = elapsed;
    const double seconds = static_cast<double>(elapsed) / 1e9;
    const std::string left =
        part > 0 ? fmt::format("{:.0f}", seconds * (1 - part) / part) : "unknown";
    spdlog::info("work={} done={} rate={:.0f} elapsed_s={:.0f} left_s={}", what_, done,
                 static_cast<double>(done) / seconds, seconds, left);
}

} // namespace reprise
