#include "querier/kernel_network.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "querier/network/network.hh"
#include "querier/network/replay_options.hh"
#include "querier/packet/packet_transport.hh"
#include "querier/sockets/transport.hh"
#include "querier/udp/addresses_transport.hh"
#include "querier/udp/ports_transport.hh"

#include <memory>
#include <time.h> // NOLINT(modernize-deprecated-headers): clock_nanosleep is POSIX

namespace reprise::querier {
namespace {

/// Between two looks for replies in source mode packet, where queries wait for them.
constexpr Nanoseconds kEagerPoll = 100 * kMicrosecond;

std::unique_ptr<UdpTransport> packet_transport(const UdpWish& wish, const UdpParts& parts,
                                               const Clock& clock) {
    if (wish.number != 0) {
        throw Error("source mode packet sends no copies to peers; hedge in another source mode");
    }
    const ReplayOptions& options = wish.options;
    PacketOptions packet{.in_flight = options.in_flight, .whole_replies = options.answers};
    if (options.fast || options.dependent) {
        packet.poll_gap = kEagerPoll; // replies let queries go
    }
    return std::make_unique<PacketTransport>(packet, parts.queries, wish.servers, parts.statistics,
                                             parts.events, clock);
}

} // namespace

std::unique_ptr<UdpTransport> KernelNetwork::udp_transport(const UdpWish& wish,
                                                           const UdpParts& parts) {
    switch (wish.options.source_mode) {
    case SourceMode::kPorts:
        return std::make_unique<PortsTransport>(poller_, clock_, wish, parts);
    case SourceMode::kPacket:
        return packet_transport(wish, parts, clock_);
    default:
        return std::make_unique<AddressesTransport>(poller_, clock_, wish, parts);
    }
}

void KernelNetwork::sleep_until(Nanoseconds time) {
    const timespec when{.tv_sec = time / kSecond, .tv_nsec = time % kSecond};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr); // a signal may end it early
}

} // namespace reprise::querier
