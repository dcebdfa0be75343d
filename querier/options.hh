#pragma once
#include "core/clock.hh"

#include <optional>
#include <string>

namespace reprise::querier {

/// The value of --early-us: "auto" (nothing: learn it) or microseconds. Throws UsageError.
std::optional<Nanoseconds> parse_early(const std::string& text);

/// The value of --spin-us, 0 to 30. Throws UsageError.
Nanoseconds parse_spin(int microseconds);

} // namespace reprise::querier
