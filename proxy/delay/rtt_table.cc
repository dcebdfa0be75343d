#include "proxy/delay/rtt_table.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/flat_ids.hh"
#include "core/base/numbers.hh"
#include "core/base/prefix.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>
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

namespace {

constexpr std::string_view kForm = "write PREFIX rtt_ms [jitter_ms [loss_percent]]";
constexpr size_t kMostCells = 4;
constexpr size_t kMostRows = 1U << 31U;

/// The path of a line, or what is wrong with it.
std::optional<std::string> parse_path(const std::vector<std::string_view>& cells, Path& path) {
    if (cells.size() < 2 || cells.size() > kMostCells) {
        return fmt::format("the line has {} cells; {}",
                           cells.size() > kMostCells ? "more than 4" : std::to_string(cells.size()),
                           kForm);
    }
    const auto rtt = parse_ms(cells[1]);
    const auto jitter = cells.size() > 2 ? parse_ms(cells[2]) : std::optional(path.jitter);
    const auto loss = cells.size() > 3 ? parse_percent(cells[3]) : std::optional(path.loss);
    if (!rtt || !jitter) {
        return fmt::format("'{:.40}' is not a time; give 0 to {} ms", cells[rtt ? 2 : 1],
                           kMostRttMs);
    }
    if (!loss) {
        return fmt::format("'{}' is not a percentage; give 0 to 100", cells[3]);
    }
    path = {.rtt = *rtt, .jitter = *jitter, .loss = *loss};
    return std::nullopt;
}

size_t family_index(const IpAddress& address) { return address.is_v4() ? 0 : 1; }

FlatIds<18>::Key key_of(const IpAddress& address, std::uint8_t length) {
    FlatIds<18>::Key key{};
    std::ranges::copy(address.bytes, key.begin());
    key[16] = address.family;
    key[17] = length;
    return key;
}

} // namespace

RttTable::RttTable(std::istream& file, const std::string& name, const Path& missing) {
    size_t number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        const auto cells = split_cells(line, kMostCells);
        if (cells.empty()) {
            continue;
        }
        Row row{.prefix = cells.front(), .path = missing};
        auto wrong = parse_path(cells, row.path);
        if (!wrong) {
            wrong = add(row);
        }
        if (wrong) {
            throw UsageError(fmt::format("{}:{}: {}", name, number, *wrong));
        }
    }
    if (file.bad()) {
        throw UsageError(fmt::format("{} cannot be read; give a readable file", name));
    }
    for (Lengths& lengths : lengths_) {
        std::ranges::sort(lengths.order, std::greater{});
    }
}

const Path* RttTable::find(const IpAddress& address) const {
    for (const std::uint8_t length : lengths_.at(family_index(address)).order) {
        if (const auto row = ids_.find(key_of(masked(address, length), length))) {
            return &rows_[*row];
        }
    }
    return fallback_ ? &*fallback_ : nullptr;
}

/// Enters a row; returns what is wrong with it. The same row twice does no harm.
std::optional<std::string> RttTable::add(const Row& row) {
    const auto again = [&] {
        return fmt::format("'{}' is there twice with different values; leave one out", row.prefix);
    };
    if (row.prefix == "default") {
        const bool differs = fallback_.has_value() && *fallback_ != row.path;
        fallback_ = row.path;
        return differs ? std::optional(again()) : std::nullopt;
    }
    const auto prefix = Prefix::parse(row.prefix);
    if (!prefix) {
        return fmt::format("'{}' is not a prefix; give one such as 192.0.2.0/24, 2001:db8::/32 or "
                           "default",
                           row.prefix);
    }
    const IpAddress network = masked(prefix->address, prefix->bits);
    const auto length = static_cast<std::uint8_t>(prefix->bits);
    if (network != prefix->address) {
        return fmt::format("'{}' has bits behind its length; write {}/{}", row.prefix,
                           network.text(), length);
    }
    if (rows_.size() >= kMostRows) {
        return "the table has too many rows; use shorter prefixes";
    }
    const auto [id, fresh] =
        ids_.find_or_add(key_of(network, length), static_cast<std::uint32_t>(rows_.size()));
    if (!fresh) {
        return rows_[id] == row.path ? std::nullopt : std::optional(again());
    }
    rows_.push_back(row.path);
    note_length(network, length);
    return std::nullopt;
}

void RttTable::note_length(const IpAddress& address, std::uint8_t length) {
    Lengths& lengths = lengths_.at(family_index(address));
    if (!lengths.there.at(length)) {
        lengths.there.at(length) = true;
        lengths.order.push_back(length);
    }
}

} // namespace reprise::proxy
