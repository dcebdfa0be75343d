// reprise-packet-check: tries, in a network namespace of its own, what source mode "packet" needs,
// and says in one line whether this kernel and user allow it: "xdp" or "none REASON". Exit status 0
// in both cases. `reprise doctor` asks it.
#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "querier/packet/route.hh"
#include "querier/packet/xdp.hh"

#include <fmt/format.h>

#include <sched.h>
#include <string>
#include <system_error>

namespace {

using namespace reprise::querier; // NOLINT: this file is one small program of that component

/// Loopback: every namespace has it, and what does not depend on the driver works there.
PacketRoute loopback() {
    PacketRoute route;
    route.interface = 1;
    route.name = "lo";
    return route;
}

reprise::Servers some_server() {
    return {.v4 = reprise::Endpoint::parse("192.0.2.1:53"), .v6 = {}};
}

std::string verdict() {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return fmt::format("none {}", reprise::SystemError("make a network namespace").what());
    }
    try {
        const FrameSender sender(loopback());
        XdpReceiver(some_server(), 512, false).attach(loopback());
        return "xdp";
    } catch (const std::system_error& error) {
        return fmt::format("none {}", error.what());
    }
}

int body(int /*argc*/, char** /*argv*/) {
    fmt::print("{}\n", verdict());
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    return reprise::run_main("reprise-packet-check", body, argc, argv);
}
