#pragma once
#include "core/base/clock.hh"
#include "core/base/prefix.hh"

#include <optional>
#include <string>
#include <vector>

namespace reprise::querier {

/// The value of --early-us: "auto" (nothing: learn it) or microseconds. Throws UsageError.
std::optional<Nanoseconds> parse_early(const std::string& text);

/// The value of --cpus: processors as in "0,2-5". Throws UsageError where it is not, or names one
/// this process may not use.
std::vector<unsigned> parse_cpus(const std::string& text);

/// The value of a --source-prefix. Throws UsageError.
Prefix parse_prefix(const std::string& text);

/// The value of --spin-us, 0 to 30. Throws UsageError.
Nanoseconds parse_spin(int microseconds);

} // namespace reprise::querier
