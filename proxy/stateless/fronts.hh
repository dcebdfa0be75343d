#pragma once
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <memory>

namespace reprise::proxy {

/// The front that the options ask for; it serves from now on. Throws UsageError where this build
/// does not have it, and what the front throws.
std::unique_ptr<Front> make_front(const StatelessOptions& options);

/// Undoes what a killed front of this kind has left on the host, if anything. Throws
/// Error if one is running, and SystemError.
void undo_killed_front(const StatelessOptions& options);

} // namespace reprise::proxy
