#pragma once
// An own network namespace for a test program, so that ports never collide and nothing leaves the
// machine.

#include <string>

namespace reprise::querier::testing {

/// Moves this process, which must still have one thread, into a new network namespace with loopback
/// up; as an ordinary user into a user namespace as well. Once per process. Why it cannot, or
/// empty.
std::string enter_network_namespace();

} // namespace reprise::querier::testing
