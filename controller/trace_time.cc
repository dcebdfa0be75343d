#include "controller/trace_time.hh"

#include "core/base/clock.hh"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace reprise::controller {
namespace {

/// Where a number of seconds is no longer one from the trace's start (three years) but an epoch's.
constexpr std::int64_t kEpochSeconds = 100'000'000;
constexpr std::int64_t kMostSeconds = 9'000'000'000;

bool all_digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<std::int64_t> number(std::string_view digits) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool good = all_digits(digits) && error == std::errc{} && value <= kMostSeconds;
    return good ? std::optional(value) : std::nullopt;
}

/// ".394" to nanoseconds; "" is 0.
std::optional<Nanoseconds> fraction(std::string_view text) {
    if (text.empty()) {
        return 0;
    }
    if (text.front() != '.' || text.size() > 10 || !all_digits(text.substr(1))) {
        return std::nullopt;
    }
    std::string digits(text.substr(1));
    digits.resize(9, '0');
    return number(digits);
}

std::optional<Nanoseconds> seconds(std::string_view text) {
    const size_t point = text.find('.');
    const auto whole = number(text.substr(0, point));
    const auto part = fraction(point == std::string_view::npos ? "" : text.substr(point));
    return whole && part ? std::optional(*whole * kSecond + *part) : std::nullopt;
}

/// "Z", "+02:00" or "-05:30" to seconds east of Greenwich.
std::optional<std::int64_t> zone(std::string_view text) {
    if (text == "Z" || text == "z") {
        return 0;
    }
    if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') {
        return std::nullopt;
    }
    const auto hours = number(text.substr(1, 2));
    const auto minutes = number(text.substr(4, 2));
    if (!hours || !minutes || *hours > 23 || *minutes > 59) {
        return std::nullopt;
    }
    return (text[0] == '-' ? -1 : 1) * (*hours * 3600 + *minutes * 60);
}

std::optional<std::int64_t> utc_seconds(const std::string& text) {
    tm parts{};
    const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (end == nullptr || *end != '\0') {
        return std::nullopt;
    }
    const int day = parts.tm_mday;
    const time_t value = timegm(&parts);
    return parts.tm_mday == day ? std::optional<std::int64_t>(value)
                                : std::nullopt; // no 30 February
}

std::optional<Nanoseconds> rfc3339(std::string_view text) {
    constexpr size_t kWhole = 19; // 2016-10-06T13:55:51
    if (text.size() <= kWhole) {
        return std::nullopt;
    }
    const auto moment = utc_seconds(std::string(text.substr(0, kWhole)));
    const std::string_view rest = text.substr(kWhole);
    const size_t at = rest.find_first_of("Zz+-");
    if (!moment || at == std::string_view::npos) {
        return std::nullopt;
    }
    const auto part = fraction(rest.substr(0, at));
    const auto east = zone(rest.substr(at));
    return part && east ? std::optional((*moment - *east) * kSecond + *part) : std::nullopt;
}

} // namespace

std::optional<TraceTime> TraceTime::parse(std::string_view text) {
    if (const auto value = seconds(text)) {
        return TraceTime{.absolute = *value >= kEpochSeconds * kSecond, .value = *value};
    }
    if (const auto value = rfc3339(text)) {
        return TraceTime{.absolute = true, .value = *value};
    }
    return std::nullopt;
}

} // namespace reprise::controller
