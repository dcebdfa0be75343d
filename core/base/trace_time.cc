#include "core/base/trace_time.hh"

#include "core/base/clock.hh"
#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace reprise {
namespace {

/// Later than any trace lasts (3 years) and earlier than any was taken (1973).
constexpr Nanoseconds kEpochFrom = 100'000'000 * kSecond;
constexpr std::int64_t kLongestSeconds = 9'000'000'000; ///< whose nanoseconds fit 64 bits

/// A number without a sign.
std::optional<std::int64_t> digits(std::string_view text) {
    return text.starts_with('-') ? std::nullopt : parse_number<std::int64_t>(text);
}

/// ".5" as nanoseconds; empty text is 0.
std::optional<Nanoseconds> decimals(std::string_view text) {
    if (text.empty()) {
        return 0;
    }
    auto value = text.size() <= 10 && text.front() == '.' ? digits(text.substr(1)) : std::nullopt;
    for (size_t size = text.size(); value && size < 10; ++size) {
        *value *= 10;
    }
    return value;
}

/// "YYYY-MM-DD" as days since the epoch.
std::optional<std::int64_t> parse_date(std::string_view text) {
    if (text.size() != 10 || text[4] != '-' || text[7] != '-') {
        return std::nullopt;
    }
    const auto year = digits(text.substr(0, 4));
    const auto month = digits(text.substr(5, 2));
    const auto day = digits(text.substr(8, 2));
    if (!year || !month || !day) {
        return std::nullopt;
    }
    const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                           std::chrono::month(static_cast<unsigned>(*month)),
                                           std::chrono::day(static_cast<unsigned>(*day))};
    return date.ok() ? std::optional(std::chrono::sys_days(date).time_since_epoch().count())
                     : std::nullopt;
}

/// "HH:MM:SS" as seconds; 60 as a leap second's is refused.
std::optional<std::int64_t> parse_clock(std::string_view text) {
    if (text.size() != 8 || text[2] != ':' || text[5] != ':') {
        return std::nullopt;
    }
    const auto hour = digits(text.substr(0, 2));
    const auto minute = digits(text.substr(3, 2));
    const auto second = digits(text.substr(6, 2));
    const bool good = hour && minute && second && *hour < 24 && *minute < 60 && *second < 60;
    return good ? std::optional((*hour * 60 + *minute) * 60 + *second) : std::nullopt;
}

/// "Z", "+02:00" or "-05:30" as seconds east of Greenwich.
std::optional<std::int64_t> parse_zone(std::string_view text) {
    if (text == "Z" || text == "z") {
        return 0;
    }
    if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') {
        return std::nullopt;
    }
    const auto hours = digits(text.substr(1, 2));
    const auto minutes = digits(text.substr(4, 2));
    if (!hours || !minutes || *hours > 23 || *minutes > 59) {
        return std::nullopt;
    }
    return (text[0] == '-' ? -1 : 1) * (*hours * 3600 + *minutes * 60);
}

// RFC 3339: "2016-10-06T11:00:00.5Z".
std::optional<Nanoseconds> parse_date_time(std::string_view text) {
    constexpr size_t kWhole = 19; // to the second
    if (text.size() <= kWhole || (text[10] != 'T' && text[10] != ' ')) {
        return std::nullopt;
    }
    const std::string_view rest = text.substr(kWhole);
    const size_t zone = std::min(rest.find_first_of("Zz+-"), rest.size());
    const auto day = parse_date(text.substr(0, 10));
    const auto second = parse_clock(text.substr(11, 8));
    const auto part = decimals(rest.substr(0, zone));
    const auto east = parse_zone(rest.substr(zone));
    if (!day || !second || !part || !east) {
        return std::nullopt;
    }
    const std::int64_t seconds = *day * 86'400 + *second - *east;
    return std::abs(seconds) <= kLongestSeconds ? std::optional(seconds * kSecond + *part)
                                                : std::nullopt;
}

} // namespace

std::optional<Nanoseconds> parse_seconds(std::string_view text, bool sign) {
    const bool negative = sign && text.starts_with('-');
    text.remove_prefix(negative ? 1 : 0);
    const size_t dot = std::min(text.find('.'), text.size());
    const auto whole = digits(text.substr(0, dot));
    const auto part = decimals(text.substr(dot));
    if (!whole || !part || *whole > kLongestSeconds) {
        return std::nullopt;
    }
    const Nanoseconds value = *whole * kSecond + *part;
    return negative ? -value : value;
}

std::string decimal_text(double value) {
    std::string text = fmt::format("{}", value);
    return text.find("e-") == std::string::npos || std::abs(value) < 1e-9
               ? text
               : fmt::format("{:.9f}", value);
}

std::optional<TraceTime> TraceTime::parse(std::string_view text) {
    if (const auto date = parse_date_time(text)) {
        return TraceTime{.absolute = true, .value = *date};
    }
    const auto seconds = parse_seconds(text);
    return seconds ? std::optional(TraceTime{.absolute = *seconds >= kEpochFrom, .value = *seconds})
                   : std::nullopt;
}

} // namespace reprise
