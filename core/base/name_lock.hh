#pragma once
// Keeps processes apart. A name in the abstract namespace of Unix sockets belongs to the network
// namespace and ends with the process, also with a killed one.

#include "core/base/fd.hh"

#include <string>

namespace reprise {

/// Takes a name until the descriptor is closed. Not valid where another process has it. Any user
/// can take such a name, so only holders that are root, `nobody` or this process's user count: if
/// another user has it, that is logged and the descriptor is valid without the name. Throws
/// SystemError.
FileDescriptor take_name(const std::string& name);

} // namespace reprise
