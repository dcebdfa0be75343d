#include "proxy/delay/rtt_cells.hh"

#include "core/base/clock.hh"
#include "core/base/numbers.hh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::proxy {

std::optional<double> parse_up_to(std::string_view text, double most) {
    const auto value = parse_number<double>(text);
    return value && *value >= 0 && *value <= most ? value : std::nullopt;
}

std::optional<Nanoseconds> parse_ms(std::string_view text) {
    const auto value = parse_up_to(text, kMostRttMs);
    return value ? std::optional(to_nanoseconds(*value)) : std::nullopt;
}

std::optional<double> parse_percent(std::string_view text) {
    const auto value = parse_up_to(text, 100);
    return value ? std::optional(*value / 100) : std::nullopt;
}

Nanoseconds to_nanoseconds(double ms) {
    return std::llround(std::clamp(ms, 0.0, kMostRttMs) * static_cast<double>(kMillisecond));
}

std::vector<std::string_view> split_cells(std::string_view line, size_t most) {
    constexpr std::string_view kBlanks = " \t\r";
    std::vector<std::string_view> cells;
    line = line.substr(0, line.find('#'));
    while (cells.size() <= most) {
        line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
        if (line.empty()) {
            break;
        }
        cells.push_back(line.substr(0, line.find_first_of(kBlanks)));
        line.remove_prefix(cells.back().size());
    }
    return cells;
}

} // namespace reprise::proxy
