#pragma once
// A capture without what a replay has no use for: responses over UDP, other ports, other protocols,
// link headers.

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::mutator {

struct ReduceOptions {
    std::string trace;
    std::string output;
    std::vector<std::uint16_t> ports{53};
};

/// Writes the queries over UDP, and the TCP segments and fragments that only make sense together
/// with others, of which some may lie in the next file. Traces merged from reduced captures have
/// the same queries and closes as those of the captures themselves.
///
/// Returns the exit status: 0, or 1 where the capture was cut. Throws TraceError, UsageError,
/// Error.
int run_reduce(const ReduceOptions& options);

} // namespace reprise::mutator
