#include "querier/options.hh"

#include "core/clock.hh"
#include "core/error.hh"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <system_error>

namespace reprise::querier {
namespace {

/// Longer ones would hide a broken timer.
constexpr int kMostEarly = 1000;
/// A querier that spins longer takes the processor from the server under test.
constexpr int kMostSpin = 30;

} // namespace

std::optional<Nanoseconds> parse_early(const std::string& text) {
    if (text == "auto") {
        return std::nullopt;
    }
    int microseconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), microseconds);
    if (error != std::errc{} || end != text.data() + text.size() || microseconds < 0 ||
        microseconds > kMostEarly) {
        throw UsageError(
            fmt::format("--early-us {}: not a number; give auto or 0 to {}", text, kMostEarly));
    }
    return microseconds * kMicrosecond;
}

Nanoseconds parse_spin(int microseconds) {
    if (microseconds < 0 || microseconds > kMostSpin) {
        throw UsageError(
            fmt::format("--spin-us {}: out of range; give 0 to {}", microseconds, kMostSpin));
    }
    return microseconds * kMicrosecond;
}

} // namespace reprise::querier
