#include "core/base/trace_time.hh"

#include "core/base/clock.hh"
#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <time.h> // NOLINT(modernize-deprecated-headers): ctime has no strptime()

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

/// "2016-10-06T11:00:00", which is of UTC, as seconds since the epoch; a leap second is none.
std::optional<std::int64_t> parse_utc(const std::string& text) {
    tm parts{};
    std::array<char, 32> again{};
    const bool read = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) != nullptr;
    const std::int64_t seconds = timegm(&parts); // it makes a day of March of February 30
    const size_t size = strftime(again.data(), again.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    const bool same = text == std::string_view(again.data(), size);
    return read && same ? std::optional(seconds) : std::nullopt;
}

/// "Z", "+02:00" or "-05:30" as seconds east of Greenwich.
std::optional<std::int64_t> parse_zone(std::string_view text) {
    if (text == "Z" || text == "z") {
        return 0;
    }
    const bool west = text.starts_with('-');
    if (!west && !text.starts_with('+')) {
        return std::nullopt;
    }
    const auto east = parse_utc(fmt::format("1970-01-01T{}:00", text.substr(1)));
    return west && east ? -*east : east;
}

/// RFC 3339: "2016-10-06T11:00:00.5Z", also with a space for the "T".
std::optional<Nanoseconds> parse_date_time(std::string_view text) {
    std::string date(text.substr(0, std::string_view("2016-10-06T11:00:00").size()));
    const std::string_view rest = text.substr(date.size());
    const size_t zone = std::min(rest.find_first_of("Zz+-"), rest.size());
    if (const size_t space = date.find(' '); space != std::string::npos) {
        date[space] = 'T';
    }
    const auto time = parse_utc(date);
    const auto part = decimals(rest.substr(0, zone));
    const auto east = parse_zone(rest.substr(zone));
    if (!time || !part || !east || std::abs(*time - *east) > kLongestSeconds) {
        return std::nullopt;
    }
    return (*time - *east) * kSecond + *part;
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
