#pragma once
// UDP in source mode "packet": queries leave as whole frames with the trace's own addresses and
// ports, replies are taken off the interface before the stack sees them. No socket, address or port
// of this host is in the way, so a source costs no memory here.
//
// Replies come by an XDP program, as beginnings of messages or as frames (fragments, IP options,
// extension headers, replies that are wanted whole). Nothing wakes the process for a reply: the
// program stamps it, so when it is fetched does not matter to its latency; next_wake() says when at
// the latest.
//
// One querier a host and interface: two could not tell their replies apart.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "querier/carrier/carrier.hh"
#include "querier/packet/frame_sender.hh"
#include "querier/packet/receive.h"
#include "querier/packet/route.hh"
#include "querier/packet/unusual_replies.hh"
#include "querier/packet/xdp_receiver.hh"
#include "querier/results/results.hh"
#include "querier/schedule/pending_queries.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::querier {

class PacketCarrier final : public Carrier {
public:
    /// Throws Error or SystemError where this host, user or network cannot.
    PacketCarrier(const CarrierWish& wish, const CarrierParts& parts);

    SendResult submit(std::uint32_t pending) override;
    void flush() override;

    void release(std::uint32_t /*pending*/) override { --in_flight_; }

    [[nodiscard]] Nanoseconds next_wake(Nanoseconds now) const override;

    /// Hands over the replies that came, a bounded number at a time. To be called before timeouts
    /// are looked for.
    bool poll() override;

    void count_drops() override;

private:
    /// An interface in use, for the server of one family or of both.
    struct Interface {
        PacketRoute route;
        FileDescriptor claim; ///< tells other queriers of this host that it is taken
        FrameSender sender;
        std::array<std::uint32_t, FrameSender::kBatch> queries{}; ///< of the staged frames
    };

    /// The way to the server of one family.
    struct Lane {
        FrameTemplate frames;
        Interface* out = nullptr;
    };

    void open_lane(std::unique_ptr<Lane>& lane, const std::optional<Endpoint>& server);
    Interface& open_interface(PacketRoute route);

    /// How many of the staged frames from `first` on are settled, at least one.
    size_t send_some(Interface& interface, size_t first, Nanoseconds& now);
    size_t refuse(const Interface& interface, size_t first, int error);

    void take_record(const ReplyHead& record);
    void take_frame(Bytes frame, Nanoseconds time);

    Nanoseconds poll_gap_; ///< longest time between two polls while queries are in flight
    CarrierParts parts_;
    const Clock& clock_;

    std::vector<std::unique_ptr<Interface>> interfaces_;
    std::unique_ptr<Lane> v4_;
    std::unique_ptr<Lane> v6_;
    XdpReceiver xdp_;
    UnusualReplies unusual_;
    std::array<std::uint8_t, kReplyPrefix> prefix_{}; ///< of the reply being handed over
    size_t in_flight_ = 0;
    std::uint16_t next_id_ = 0; ///< of IPv4
    bool used_ = false;         ///< anything was sent
    bool more_ = false;         ///< the last poll left replies behind
    Nanoseconds polled_ = 0;
};

} // namespace reprise::querier
