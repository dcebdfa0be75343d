#pragma once
// Keeps fronts apart. A name in the abstract namespace of Unix sockets belongs to the network
// namespace and ends with the process, also with a killed one.

#include "core/base/fd.hh"

#include <string>

namespace reprise::proxy {

/// Takes a name until the descriptor is closed. Not valid where another process has it. Throws
/// SystemError.
FileDescriptor take_name(const std::string& name);

/// The same for an interface: one front serves it, of whatever kind. Throws Error where another one
/// does.
FileDescriptor lock_interface(const std::string& interface);

} // namespace reprise::proxy
