#pragma once
// The front in the kernel: loads the BPF programs and puts them on the interface, keeps what they
// need true, and counts.

#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <memory>
#include <string>

namespace reprise::proxy {

/// Serves from now on. Throws UsageError, Error or SystemError, with nothing left on the host.
std::unique_ptr<Front> make_bpf_front(const StatelessOptions& options);

/// Removes what a killed front left on the interface. Throws UsageError, Error where a front serves
/// it, SystemError.
void repair_bpf_interface(const std::string& interface);

/// Throws Error where such a front serves the interface or has left its programs there: they would
/// take the clients' packets before --front reference sees one.
void refuse_programs(const std::string& interface);

} // namespace reprise::proxy
