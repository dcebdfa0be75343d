#pragma once
// Cells of the files that tell of round trips.

#include "core/base/clock.hh"

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::proxy {

inline constexpr double kMostRttMs = 100'000;

/// A decimal number from 0 to `most` and nothing else.
std::optional<double> parse_up_to(std::string_view text, double most);

/// A number of ms from 0 to kMostRttMs as nanoseconds, a percentage from 0 to 100 as a share.
std::optional<Nanoseconds> parse_ms(std::string_view text);
std::optional<double> parse_percent(std::string_view text);

/// Milliseconds as nanoseconds, brought into the range of round trips.
Nanoseconds to_nanoseconds(double ms);

/// The cells of a line up to its comment (#), separated by blanks; no more than `most` + 1.
std::vector<std::string_view> split_cells(std::string_view line, size_t most);

} // namespace reprise::proxy
