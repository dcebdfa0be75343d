#include "mutator/info/info_format.hh"

#include "core/base/clock.hh"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>

namespace reprise::mutator {

double share(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string utc(Nanoseconds time) {
    const Nanoseconds rest = (time % kSecond + kSecond) % kSecond;
    const auto seconds = static_cast<std::time_t>((time - rest) / kSecond);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(seconds), rest);
}

std::string grouped(std::uint64_t number) {
    const std::string digits = std::to_string(number);
    std::string text;
    for (size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) {
            text += ',';
        }
        text += digits[i];
    }
    return text;
}

} // namespace reprise::mutator
