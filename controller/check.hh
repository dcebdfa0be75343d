#pragma once
// --check: what can be said of the options and the trace before anything is played.

#include "controller/options.hh"
#include "controller/trace_feed.hh"
#include "core/trace/extent.hh"

#include <optional>
#include <string>

namespace reprise::controller {

/// Says why nothing of a trace can be played, once it was read.
std::string no_queries(const Options& options, const FeedState& feed);

/// Looks at what Options::check says. The trace is read up to its first query that can be played,
/// and so much further that the extent of what is played in one lap can be told. Throws UsageError,
/// TraceError, or Error where there is no such query.
std::optional<trace::Extent> check(const Options& options);

} // namespace reprise::controller
