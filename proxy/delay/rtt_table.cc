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

/// The path of a line, or what is wrong with it.
std::optional<std::string> parse_path(const std::vector<std::string_view>& cells, Path& path) {
    if (cells.size() < 2 || cells.size() > kMostCells) {
        return fmt::format("the line has {} cells; {}",
                           cells.size() > kMostCells ? "more than 4" : std::to_string(cells.size()),
                           kForm);
    }
    path.listed = true;
    for (size_t at = 1; at < std::min(cells.size(), size_t{3}); ++at) {
        const auto ms = parse_up_to(cells[at], kMostRttMs);
        if (!ms) {
            return fmt::format("'{:.40}' is not a time; give 0 to {} ms", cells[at], kMostRttMs);
        }
        (at == 1 ? path.rtt : path.jitter) = to_nanoseconds(*ms);
    }
    if (cells.size() == kMostCells) {
        const auto percent = parse_up_to(cells.back(), 100);
        if (!percent) {
            return fmt::format("'{}' is not a percentage; give 0 to 100", cells.back());
        }
        path.loss = *percent / 100;
    }
    return std::nullopt;
}

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
        Path path = missing;
        auto wrong = parse_path(cells, path);
        if (!wrong) {
            wrong = add(cells.front(), path);
        }
        if (wrong) {
            throw UsageError(fmt::format("{}:{}: {}", name, number, *wrong));
        }
    }
    if (file.bad()) {
        throw UsageError(fmt::format("{} cannot be read; give a readable file", name));
    }
}

const Path* RttTable::find(const IpAddress& address) const {
    for (const std::uint8_t length : lengths_.at(address.is_v6() ? 1 : 0)) {
        if (const auto row = ids_.find(key_of(masked(address, length), length))) {
            return &rows_[*row];
        }
    }
    return fallback_ ? &*fallback_ : nullptr;
}

/// Enters a row; returns what is wrong with it. The same row twice does no harm.
std::optional<std::string> RttTable::add(std::string_view text, const Path& path) {
    const Path* before = nullptr;
    if (text == "default") {
        before = fallback_ ? &*fallback_ : &fallback_.emplace(path);
    } else {
        const auto prefix = Prefix::parse(text);
        if (!prefix) {
            return fmt::format("'{}' is not a prefix; give one such as 192.0.2.0/24, 2001:db8::/32 "
                               "or default",
                               text);
        }
        const IpAddress network = masked(prefix->address, prefix->bits);
        const auto length = static_cast<std::uint8_t>(prefix->bits);
        if (network != prefix->address) {
            return fmt::format("'{}' has bits behind its length; write {}/{}", text, network.text(),
                               length);
        }
        const auto [id, fresh] =
            ids_.find_or_add(key_of(network, length), static_cast<std::uint32_t>(rows_.size()));
        if (fresh) {
            rows_.push_back(path);
            lengths_.at(network.is_v6() ? 1 : 0).insert(length);
        }
        before = &rows_[id];
    }
    return *before == path ? std::nullopt
                           : std::optional(fmt::format(
                                 "'{}' is there twice with different values; leave one out", text));
}

} // namespace reprise::proxy
