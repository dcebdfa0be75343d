// Times as rules' users write them.

#include "core/base/clock.hh"
#include "mutator/rules/engine/values.hh"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace reprise::mutator {
namespace {

/// Later than any trace lasts (3 years) and earlier than any was taken (1973).
constexpr Nanoseconds kEpochFrom = 100'000'000 * kSecond;
constexpr std::int64_t kLongestSeconds = 9'000'000'000; ///< whose nanoseconds fit 64 bits

std::optional<std::int64_t> digits(std::string_view text) {
    std::int64_t value = 0;
    const bool starts = !text.empty() && text.front() >= '0' && text.front() <= '9';
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    return starts && whole ? std::optional(value) : std::nullopt;
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

// RFC 3339 in UTC: "2016-10-06T11:00:00.5Z".
std::optional<Nanoseconds> parse_date_time(std::string_view text) {
    if (text.size() < 20 || (text[10] != 'T' && text[10] != ' ') || text.back() != 'Z') {
        return std::nullopt;
    }
    const auto day = parse_date(text.substr(0, 10));
    const auto second = parse_clock(text.substr(11, 8));
    const auto part = decimals(text.substr(19, text.size() - 20));
    const auto seconds = day && second ? std::optional(*day * 86'400 + *second) : std::nullopt;
    if (!seconds || !part || *seconds < 0 || *seconds > kLongestSeconds) {
        return std::nullopt;
    }
    return *seconds * kSecond + *part;
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

std::optional<TimeValue> parse_time(std::string_view text) {
    if (const auto date = parse_date_time(text)) {
        return TimeValue{.value = *date, .from_start = false};
    }
    const auto seconds = parse_seconds(text);
    return seconds
               ? std::optional(TimeValue{.value = *seconds, .from_start = *seconds < kEpochFrom})
               : std::nullopt;
}

} // namespace reprise::mutator
