#pragma once
// The front in user space: a TUN device, raw sockets, UDP sockets and the responder between them.

#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <memory>

namespace reprise::proxy::stateless {

/// Serves from now on; with `active` off it does nothing. Throws UsageError, Error or SystemError.
std::unique_ptr<Front> make_reference_front(const StatelessOptions& options);

/// Removes what a killed front left on this host. Throws Error if one is running, SystemError.
void repair_reference_host();

} // namespace reprise::proxy::stateless
