#pragma once
// --check: what can be said of the options and the trace before anything is played.

#include "controller/options.hh"
#include "controller/trace_feed.hh"

#include <string>

namespace reprise::controller {

/// Says why nothing of a trace can be played, once it was read.
std::string no_queries(const Options& options, const FeedState& feed);

/// Looks at what Options::check says. The trace is read up to its first query that can be played,
/// no further. Throws UsageError, TraceError, or Error where there is no such query.
void check(const Options& options);

} // namespace reprise::controller
