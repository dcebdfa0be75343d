#pragma once
#include "core/trace/reassembly/options.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::trace {

/// What a trace lacks, one line each: the counter, how many, their share, what they are, and what
/// to do about it. `messages` are the queries and responses read. Only what is more than 0.1 % of
/// those and itself is told, the most first.
std::vector<std::string> losses(const Counters& counters, std::uint64_t messages);

/// The same in one line behind "; ", for an error; empty where there is nothing to tell.
std::string losses_suffix(const Counters& counters, std::uint64_t messages);

/// The same for everything that was not read, lost or not: why a trace has no query.
std::string unread_suffix(const Counters& counters, std::uint64_t messages);

/// What was not read, each with its counter, number and reason, the largest first; empty if
/// everything was read.
std::string left_out(const Counters& counters);

} // namespace reprise::trace
