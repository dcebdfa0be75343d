// reprise-packet-check: tries, in a network namespace of its own, what source mode "packet" needs,
// and says in one line which way of receiving this kernel and user allow: "xdp", "ring REASON" or
// "none REASON". Exit status 0 in all three cases. `reprise doctor` asks it.
#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "querier/packet/frame_ring.hh"
#include "querier/packet/frame_sender.hh"
#include "querier/packet/route.hh"
#include "querier/packet/xdp_receiver.hh"

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
    route.mtu = 1500;
    return route;
}

reprise::Servers some_server() {
    return {.v4 = reprise::Endpoint::parse("192.0.2.1:53"), .v6 = {}};
}

template <typename Attempt> std::string why_not(Attempt attempt) {
    try {
        attempt();
        return "";
    } catch (const std::system_error& error) {
        return error.what();
    }
}

std::string verdict() {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return fmt::format("none {}", reprise::SystemError("make a network namespace").what());
    }
    const std::string sockets = why_not([] {
        open_packet_sender(loopback());
        const FrameRing ring(loopback(), some_server(), 512);
    });
    if (!sockets.empty()) {
        return "none " + sockets;
    }
    const std::string xdp = why_not([] { XdpReceiver(some_server(), 512).attach(loopback()); });
    return xdp.empty() ? "xdp" : "ring " + xdp;
}

int body(int /*argc*/, char** /*argv*/) {
    fmt::print("{}\n", verdict());
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    return reprise::run_main("reprise-packet-check", body, argc, argv);
}
