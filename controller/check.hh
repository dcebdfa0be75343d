#pragma once
// What can be said of the options and the trace before anything is played.

#include "controller/options.hh"
#include "controller/trace_feed.hh"
#include "core/trace/extent.hh"

#include <optional>
#include <string>

namespace reprise::controller {

/// Checks what the parser cannot: the settings, and what goes with them. Throws UsageError.
void validate(const Options& options);

/// The certificates of a PEM file, as PEM without anything else (bundles have comments in any
/// encoding); empty for an empty path. Throws UsageError with the hint where there are none, or the
/// file is too large for a message of the tree.
std::string read_authorities(const std::string& path);

/// Says why nothing of a trace can be played, once it was read.
std::string no_queries(const Options& options, const FeedState& feed);

/// Looks at what Options::check says. The trace is read up to its first query that can be played,
/// and so much further that the extent of what is played in one lap can be told. Throws UsageError,
/// TraceError, or Error where there is no such query.
std::optional<trace::Extent> check(const Options& options);

} // namespace reprise::controller
