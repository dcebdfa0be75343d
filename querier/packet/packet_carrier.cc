#include "querier/packet/packet_carrier.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/log.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/carrier/socket.hh"
#include "querier/packet/frame_ring.hh"
#include "querier/packet/frame_sender.hh"
#include "querier/packet/receive.h"
#include "querier/packet/route.hh"
#include "querier/packet/unusual_replies.hh"
#include "querier/packet/xdp_receiver.hh"
#include "querier/schedule/pending_queries.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace reprise::querier {
namespace {

/// Records and frames taken in one poll: some 30 us of work, as it must not delay sending.
constexpr size_t kMostRecords = 128;
constexpr size_t kMostFrames = 64;
/// Between two polls while queries are in flight, and where others wait for replies.
constexpr Nanoseconds kPollGap = kMillisecond;
constexpr Nanoseconds kEagerGap = 100 * kMicrosecond;
/// While nothing is in flight: late and duplicate answers are still counted.
constexpr Nanoseconds kIdleGap = 100 * kMillisecond;
constexpr Nanoseconds kDropsGap = 100 * kMillisecond;
/// Frames in the ring that takes everything, and in the one that takes what XDP leaves.
constexpr size_t kMostRingFrames = 16384;
constexpr size_t kOddFrames = 2048;
constexpr Nanoseconds kCarrierPatience = 10 * kSecond;
/// Longest wait for a next hop's hardware address.
constexpr Nanoseconds kHopPatience = 3 * kSecond;

/// One querier sends packets through an interface.
FileDescriptor claim(const PacketRoute& route) {
    FileDescriptor lock = take_name(fmt::format("reprise-packet-{}", route.interface));
    if (!lock.valid()) {
        throw Error(
            fmt::format("another querier of this host sends packets through {}, and replies "
                        "could not be told apart; start one querier a host (--queriers 1)",
                        route.name));
    }
    return lock;
}

void refuse_foreign_program(const PacketRoute& route) {
    const XdpProgram found = find_xdp_program(route);
    if (found.id != 0) {
        throw Error(fmt::format("interface {0} has a foreign XDP program, {1} (id {2}), "
                                "which may take or delay replies; ip link set dev {0} {3} off",
                                route.name, log_value(found.name), found.id,
                                found.generic ? "xdpgeneric" : "xdp"));
    }
}

} // namespace

// Set-up

PacketCarrier::PacketCarrier(const CarrierWish& wish, const CarrierParts& parts)
    : servers_(wish.servers),
      poll_gap_(wish.options.fast || wish.options.dependent ? kEagerGap : kPollGap), parts_(parts),
      clock_(parts.network.clock()), unusual_(wish.servers) {
    if (wish.number != 0) {
        throw Error("source mode packet sends no copies to peers; hedge in another source mode");
    }
    open_lane(v4_, servers_.v4);
    open_lane(v6_, servers_.v6);
    for (const auto& interface : interfaces_) {
        refuse_foreign_program(interface->route);
    }
    // The XDP program hands over only the beginnings of replies.
    const std::string why =
        wish.options.answers ? "whole replies are kept" : load_xdp(wish.options.in_flight);
    const size_t frames = xdp_ ? kOddFrames : std::min(wish.options.in_flight, kMostRingFrames);
    for (const auto& interface : interfaces_) {
        rings_.emplace_back(interface->route, servers_, frames);
    }
    for (const auto& interface : interfaces_) {
        await_carrier(interface->route, kCarrierPatience);
    }
    if (!why.empty()) {
        spdlog::warn("event=packet_receive kind=ring reason={}", log_value(why));
    }
}

void PacketCarrier::open_lane(std::unique_ptr<Lane>& lane, const std::optional<Endpoint>& server) {
    if (!server) {
        return;
    }
    PacketRoute route = find_packet_route(server->address, kHopPatience);
    const FrameTemplate frames(route.macs, *server);
    lane = std::make_unique<Lane>(Lane{.frames = frames, .out = &open_interface(std::move(route))});
}

PacketCarrier::Interface& PacketCarrier::open_interface(PacketRoute route) {
    for (const auto& known : interfaces_) {
        if (known->route.interface == route.interface) {
            return *known;
        }
    }
    FileDescriptor mine = claim(route);
    std::string why;
    auto sender = open_sender(route, why);
    spdlog::info("event=packet_send kind={} interface={}{}", sender->kind(), route.name,
                 why.empty() ? "" : " reason=" + log_value(why));
    interfaces_.push_back(std::make_unique<Interface>(Interface{.route = std::move(route),
                                                                .claim = std::move(mine),
                                                                .sender = std::move(sender),
                                                                .queries = {}}));
    return *interfaces_.back();
}

std::string PacketCarrier::load_xdp(size_t replies) {
    try {
        auto xdp = std::make_unique<XdpReceiver>(servers_, replies);
        for (const auto& interface : interfaces_) {
            const std::string mode = xdp->attach(interface->route);
            spdlog::info("event=packet_receive kind=xdp mode={} interface={}", mode,
                         interface->route.name);
        }
        xdp_ = std::move(xdp);
        return "";
    } catch (const std::system_error& error) {
        return error.what();
    }
}

// Sending

SendResult PacketCarrier::submit(std::uint32_t index) {
    PendingQuery& pending = parts_.queries[index];
    const Lane* lane = (pending.family() == 4 ? v4_ : v6_).get();
    if (lane == nullptr) {
        return SendResult::kFailed;
    }
    Interface& out = *lane->out;
    const Bytes query = pending.bytes();
    if (!out.route.carries(lane->frames.headers() - kEthernetHeader + query.size())) {
        return SendResult::kOversize;
    }
    const auto room = out.sender->room();
    if (room.empty()) {
        return SendResult::kBusy;
    }
    out.queries[out.sender->staged()] = index;
    out.sender->commit(lane->frames.write(room, pending.source, query, next_id_++));
    pending.owner = owner_of(pending.source);
    ++in_flight_;
    return SendResult::kStaged;
}

void PacketCarrier::flush() {
    for (const auto& interface : interfaces_) {
        const size_t count = interface->sender->staged();
        if (count == 0) {
            continue;
        }
        used_ = true;
        Nanoseconds now = clock_.now();
        for (size_t first = 0; first < count;) {
            first += send_some(*interface, first, now);
        }
        interface->sender->clear();
    }
}

size_t PacketCarrier::send_some(Interface& interface, size_t first, Nanoseconds& now) {
    const int taken = interface.sender->send(first);
    const Nanoseconds before = std::exchange(now, clock_.now());
    if (taken < 0) {
        return refuse(interface, first, -taken);
    }
    const auto count = static_cast<size_t>(taken);
    for (size_t i = 0; i < count; ++i) {
        parts_.events.on_sent(interface.queries[first + i], {.before = before, .after = now});
    }
    return count;
}

size_t PacketCarrier::refuse(const Interface& interface, size_t first, int error) {
    const bool wait = no_buffer(error) && has_carrier(interface.route);
    // What waits for buffers waits together; what never leaves is found out one by one.
    const size_t count = wait ? interface.sender->staged() - first : 1;
    const SendResult result = wait                ? SendResult::kBusy
                              : error == EMSGSIZE ? SendResult::kOversize
                                                  : SendResult::kFailed;
    for (size_t i = first; i < first + count; ++i) {
        parts_.events.on_refused(interface.queries[i], result);
    }
    return count;
}

// Receiving

Nanoseconds PacketCarrier::next_wake(Nanoseconds now) const {
    if (!used_) {
        return std::numeric_limits<Nanoseconds>::max();
    }
    return more_ ? now : polled_ + (in_flight_ > 0 ? poll_gap_ : kIdleGap);
}

bool PacketCarrier::poll() {
    polled_ = clock_.now();
    const auto take = [this](const PacketRecord& record) { take_record(record); };
    more_ = xdp_ && xdp_->drain(kMostRecords, take) == kMostRecords;
    for (FrameRing& ring : rings_) {
        more_ = drain(ring) == kMostFrames || more_;
    }
    if (polled_ >= drops_read_ + kDropsGap) {
        drops_read_ = polled_;
        count_drops();
    }
    return !more_;
}

void PacketCarrier::take_record(const PacketRecord& record) {
    const Endpoint local{.address = record.family == 4 ? IpAddress::v4(record.address)
                                                       : IpAddress::v6(record.address),
                         .port = record.port};
    const size_t kept = std::min<size_t>(record.kept, prefix_.size());
    std::memcpy(prefix_.data(), record.dns, sizeof record.dns);
    if (kept > sizeof record.dns) {
        const auto& whole = reinterpret_cast<const LongRecord&>(record);
        std::memcpy(&prefix_[sizeof record.dns], whole.rest, kept - sizeof record.dns);
    }
    parts_.events.on_reply(owner_of(local), {.bytes = {prefix_.data(), kept},
                                             .size = record.size,
                                             .received = static_cast<Nanoseconds>(record.time)});
}

size_t PacketCarrier::drain(FrameRing& ring) {
    FrameRing::Frame frame = ring.front();
    if (frame.bytes.empty()) {
        return 0;
    }
    stamps_.sample(clock_.pair());
    size_t count = 0;
    for (; count < kMostFrames && !frame.bytes.empty(); ++count) {
        take_odd(frame);
        ring.release();
        frame = ring.front();
    }
    parts_.statistics.frames_taken += count;
    return count;
}

void PacketCarrier::take_odd(const FrameRing::Frame& frame) {
    const UnusualReplies::Result result = unusual_.read(frame, stamps_.convert(frame.time));
    switch (result.kind) {
    case UnusualReplies::Kind::kMessage:
        parts_.events.on_reply(owner_of(result.destination), result.reply);
        break;
    case UnusualReplies::Kind::kUnreachable:
        ++parts_.statistics.unreachable; // the query it belongs to times out like any other
        break;
    case UnusualReplies::Kind::kBad:
        ++parts_.statistics.unmatched;
        break;
    case UnusualReplies::Kind::kPending:
        break;
    }
}

void PacketCarrier::count_drops() {
    for (FrameRing& ring : rings_) {
        parts_.statistics.receive_overflows += ring.take_drops();
    }
    if (xdp_) {
        const std::uint64_t total = xdp_->overflows();
        parts_.statistics.receive_overflows += total - std::exchange(overflows_, total);
    }
}

} // namespace reprise::querier
