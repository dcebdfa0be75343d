#pragma once

// The commands of the proxy as processes: what they are told, what they ask of the host, when they
// wake up, how they end.

namespace reprise::proxy {

/// Reads the command line and does what it says. Returns the exit status. Throws UsageError, Error
/// or SystemError.
int run(int argc, char** argv);

} // namespace reprise::proxy
