#pragma once
// An own network namespace for a test program, so that ports never collide and nothing leaves the
// machine.

#include <string>

namespace reprise::testing {

/// Moves this process, which must still have one thread, into a new network namespace with loopback
/// up; as an ordinary user into a user namespace as well. Once per process. Why it cannot, or
/// empty.
std::string enter_network_namespace();

/// Runs the ip program, e.g. ip("link set lo mtu 1500"). Throws where it fails.
void ip(const std::string& words);

/// A counter of the namespace, e.g. snmp_counter("Ip", "FragCreates").
long snmp_counter(const std::string& table, const std::string& name);

} // namespace reprise::testing
