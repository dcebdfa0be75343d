#include "proxy/stateless/fronts.hh"

#include "core/base/error.hh"
#include "proxy/stateless/bpf/bpf_front.hh"
#include "proxy/stateless/bpf/hooks.hh"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/lock.hh"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/userspace/front.hh"

#include <fmt/format.h>

#include <memory>
#include <net/if.h>
#include <string>

namespace reprise::proxy {

namespace {

/// They would take the clients' packets before --front reference sees one.
void refuse_programs(const std::string& interface) {
    if (left_behind(static_cast<int>(if_nametoindex(interface.c_str())))) {
        static_cast<void>(lock_interface(interface)); // says so where that front still runs
        throw Error(fmt::format("--interface {}: programs of a killed --front bpf still serve it; "
                                "remove them with `reprise-proxy stateless --front bpf "
                                "--interface {} --undo`",
                                interface, interface));
    }
}

} // namespace

void undo_killed_front(const StatelessOptions& options) {
    if (options.front == FrontKind::kReference) {
        stateless::repair_reference_host();
    } else if (if_nametoindex(options.interface.c_str()) != 0) { // else all went with it
        BpfFront::repair(options.interface);
    }
}

std::unique_ptr<Front> make_front(const StatelessOptions& options) {
    if (options.front == FrontKind::kBpf) {
        return std::make_unique<BpfFront>(options);
    }
    if (options.active) {
        refuse_programs(options.interface);
    }
    return stateless::make_reference_front(options);
}

} // namespace reprise::proxy
