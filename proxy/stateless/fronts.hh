#pragma once
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <memory>

namespace reprise::proxy {

/// The front that the options ask for; it serves from now on. Throws UsageError where this build
/// does not have it, and what the front throws.
std::unique_ptr<Front> make_front(const StatelessOptions& options);

/// Puts back what a killed front of this kind has left on the host; nothing where none did. Throws
/// Error where one runs, and SystemError.
void undo_killed_front(const StatelessOptions& options);

} // namespace reprise::proxy
