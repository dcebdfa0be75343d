#include "proxy/stateless/process.hh"

#include "core/base/error.hh"
#include "core/base/signals.hh"
#include "proxy/service.hh"
#include "proxy/stateless/bpf/bpf_front.hh"
#include "proxy/stateless/bpf/hooks.hh"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/userspace/front.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <net/if.h>
#include <string>

namespace reprise::proxy {

namespace {

/// They would take the clients' packets before --front reference sees one.
void refuse_programs(const std::string& interface) {
    if (left_behind(static_cast<int>(interface_index(interface)))) {
        static_cast<void>(lock_interface(interface)); // says so where that front still runs
        throw Error(fmt::format("--interface {}: programs of a killed --front bpf still serve it; "
                                "remove them with `reprise-proxy stateless --front bpf "
                                "--interface {} --undo`",
                                interface, interface));
    }
}

/// Undoes what a killed front of this kind has left on the host, if anything. Throws Error if one
/// is running, and SystemError.
void undo_killed_front(const StatelessOptions& options) {
    if (options.front == FrontKind::kReference) {
        stateless::repair_reference_host();
    } else if (const std::string& interface = options.interfaces.front();
               if_nametoindex(interface.c_str()) != 0) { // else all went with it
        BpfFront::repair(interface);
    }
}

std::unique_ptr<Front> make_front(const StatelessOptions& options) {
    if (options.front == FrontKind::kBpf) {
        return std::make_unique<BpfFront>(options);
    }
    if (options.active) {
        std::ranges::for_each(options.interfaces, refuse_programs);
    }
    return stateless::make_reference_front(options);
}

} // namespace

int run_stateless(const StatelessOptions& options) {
    spdlog::set_level(options.loglevel >= 3 ? spdlog::level::debug : spdlog::level::info);
    if (options.undo) {
        undo_killed_front(options);
        return 0;
    }
    const Signals signals = service_signals();
    serve(*make_front(options), signals, options.stats);
    return 0;
}

} // namespace reprise::proxy
