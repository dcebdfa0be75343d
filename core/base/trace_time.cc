#include "core/base/trace_time.hh"

#include "core/base/clock.hh"
#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

/// The numbers in a text like `form`, whose zeros stand for digits; nothing where it is another.
std::optional<std::array<int, 6>> numbers_of(std::string_view text, std::string_view form) {
    std::array<int, 6> numbers{};
    size_t at = 0;
    for (size_t i = 0; i < text.size() && text.size() == form.size(); ++i) {
        if (form[i] == '0' && text[i] >= '0' && text[i] <= '9') {
            numbers.at(at) = numbers.at(at) * 10 + (text[i] - '0');
        } else if (form[i] == '0' || text[i] != form[i]) {
            return std::nullopt;
        } else {
            ++at;
        }
    }
    return text.size() == form.size() ? std::optional(numbers) : std::nullopt;
}

/// "Z", "+02:00" or "-05:30" as seconds east of Greenwich.
std::optional<std::int64_t> parse_zone(std::string_view text) {
    if (text == "Z" || text == "z") {
        return 0;
    }
    const bool west = text.starts_with('-');
    const auto time = numbers_of(text, west ? "-00:00" : "+00:00");
    if (!time || time->at(1) > 23 || time->at(2) > 59) {
        return std::nullopt;
    }
    return (west ? -60 : 60) * (time->at(1) * 60 + time->at(2));
}

/// RFC 3339: "2016-10-06T11:00:00.5Z"; 60 as a leap second's is refused.
std::optional<Nanoseconds> parse_date_time(std::string_view text) {
    constexpr std::string_view kForm = "0000-00-00T00:00:00";
    if (text.size() <= kForm.size()) {
        return std::nullopt;
    }
    const std::string_view rest = text.substr(kForm.size());
    const size_t zone = std::min(rest.find_first_of("Zz+-"), rest.size());
    const auto time =
        numbers_of(text.substr(0, kForm.size()), text[10] == ' ' ? "0000-00-00 00:00:00" : kForm);
    const auto part = decimals(rest.substr(0, zone));
    const auto east = parse_zone(rest.substr(zone));
    if (!time || !part || !east) {
        return std::nullopt;
    }
    const auto [year, month, day, hour, minute, second] = *time;
    const std::chrono::year_month_day date{std::chrono::year(year),
                                           std::chrono::month(static_cast<unsigned>(month)),
                                           std::chrono::day(static_cast<unsigned>(day))};
    if (!date.ok() || hour > 23 || minute > 59 || second > 59) {
        return std::nullopt;
    }
    const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
    const std::int64_t seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - *east;
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
