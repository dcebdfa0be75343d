#pragma once
#include "core/base/fd.hh"

#include <string>

namespace reprise::proxy {

/// One front serves an interface, of whatever kind, until the descriptor is closed (see
/// core/base/name_lock.hh). Throws Error where another one does.
FileDescriptor lock_interface(const std::string& interface);

} // namespace reprise::proxy
