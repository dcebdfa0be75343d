#pragma once
// A front of statelessTCP as a process.

#include "proxy/stateless/common/options.hh"

namespace reprise::proxy {

/// Serves until SIGTERM, SIGINT or SIGQUIT. Returns the exit status. Throws UsageError, Error or
/// SystemError, with the statistics written where it served already.
int run_stateless(const StatelessOptions& options);

} // namespace reprise::proxy
