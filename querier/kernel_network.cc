#include "querier/kernel_network.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/packet/packet_carrier.hh"
#include "querier/udp/udp_carriers.hh"

#include <memory>
#include <time.h> // NOLINT(modernize-deprecated-headers): clock_nanosleep is POSIX

namespace reprise::querier {
namespace {

/// Between two looks for replies in source mode packet, where queries wait for them.
constexpr Nanoseconds kEagerPoll = 100 * kMicrosecond;

std::unique_ptr<Carrier> packet_carrier(const CarrierWish& wish, const CarrierParts& parts) {
    if (wish.number != 0) {
        throw Error("source mode packet sends no copies to peers; hedge in another source mode");
    }
    const ReplayOptions& options = wish.options;
    PacketOptions packet{.in_flight = options.in_flight, .whole_replies = options.answers};
    if (options.fast || options.dependent) {
        packet.poll_gap = kEagerPoll; // replies let queries go
    }
    return std::make_unique<PacketCarrier>(packet, wish.servers, parts);
}

} // namespace

std::unique_ptr<Carrier> KernelNetwork::udp_carrier(const CarrierWish& wish,
                                                    const CarrierParts& parts) {
    switch (wish.options.source_mode) {
    case SourceMode::kPorts:
        return std::make_unique<PortsCarrier>(poller_, wish, parts);
    case SourceMode::kPacket:
        return packet_carrier(wish, parts);
    default:
        return std::make_unique<AddressesCarrier>(poller_, wish, parts);
    }
}

void KernelNetwork::sleep_until(Nanoseconds time) {
    const timespec when{.tv_sec = time / kSecond, .tv_nsec = time % kSecond};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr); // a signal may end it early
}

} // namespace reprise::querier
