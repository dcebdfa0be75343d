#pragma once
#include "core/base/prefix.hh"

#include <string>
#include <vector>

namespace reprise::querier {

/// The value of --cpus: processors as in "0,2-5". Throws UsageError where it is not, or names one
/// this process may not use.
std::vector<unsigned> parse_cpus(const std::string& text);

/// The value of a --source-prefix. Throws UsageError.
Prefix parse_prefix(const std::string& text);

} // namespace reprise::querier
