#include "querier/packet/packet_carrier.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/carrier/socket.hh"
#include "querier/packet/receive.h"
#include "querier/packet/route.hh"
#include "querier/packet/unusual_replies.hh"
#include "querier/packet/xdp.hh"
#include "querier/results/results.hh"
#include "querier/schedule/pending_queries.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <sched.h>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

/// Records taken in one poll: some 30 us of work, as it must not delay sending.
constexpr size_t kMostRecords = 128;
/// Between two polls while queries are in flight, and where others wait for replies.
constexpr Nanoseconds kPollGap = kMillisecond;
constexpr Nanoseconds kEagerGap = 100 * kMicrosecond;
/// While nothing is in flight: late and duplicate answers are still counted.
constexpr Nanoseconds kIdleGap = 100 * kMillisecond;
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

/// What only XDP can do. Throws Error where it is refused.
template <typename Action> auto by_xdp(const Action& action) {
    try {
        return action();
    } catch (const std::system_error& error) {
        throw Error(fmt::format("source mode packet needs XDP: {}; run as root on Linux 5.18 or "
                                "newer, or use source mode addresses",
                                error.what()));
    }
}

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

class PacketCarrier final : public Carrier {
public:
    PacketCarrier(const CarrierWish& wish, const CarrierParts& parts)
        : poll_gap_(wish.options.fast || wish.options.dependent ? kEagerGap : kPollGap),
          parts_(parts), clock_(parts.network.clock()), xdp_(by_xdp([&] {
              return XdpReceiver(wish.servers, wish.options.in_flight, wish.options.answers);
          })),
          unusual_(wish.servers) {
        if (wish.number != 0) {
            throw Error(
                "source mode packet sends no copies to peers; hedge in another source mode");
        }
        open_lane(v4_, wish.servers.v4);
        open_lane(v6_, wish.servers.v6);
        for (const auto& interface : interfaces_) {
            refuse_foreign_program(interface->route);
        }
        for (const auto& interface : interfaces_) {
            const PacketRoute& route = interface->route;
            const std::string mode = by_xdp([&] { return xdp_.attach(route); });
            spdlog::info("event=packet_receive kind=xdp mode={} interface={}", mode, route.name);
            await_carrier(route, kCarrierPatience);
        }
    }

    SendResult submit(std::uint32_t index) override {
        PendingQuery& pending = parts_.queries[index];
        const std::optional<Lane>& lane = pending.family() == 4 ? v4_ : v6_;
        if (!lane) {
            return SendResult::kFailed;
        }
        Interface& out = *lane->out;
        const Bytes query = pending.bytes();
        if (lane->frames.headers() - kEthernetHeader + query.size() > out.route.mtu) {
            return SendResult::kOversize;
        }
        const auto room = out.sender.room();
        if (room.empty()) {
            return SendResult::kBusy;
        }
        out.queries[out.sender.staged()] = index;
        out.sender.commit(lane->frames.write(room, pending.source, query, next_id_++));
        pending.owner = owner_of(pending.source);
        ++in_flight_;
        return SendResult::kStaged;
    }

    void flush() override {
        for (const auto& interface : interfaces_) {
            FrameSender& sender = interface->sender;
            if (sender.staged() == 0) {
                continue;
            }
            used_ = true;
            Nanoseconds now = clock_.now();
            send_in_order(std::span(interface->queries).first(sender.staged()), clock_,
                          parts_.events, now, [&](size_t first) {
                              const int sent = sender.send(first);
                              // Without a carrier nobody makes room.
                              return sent < 0 && no_buffer(-sent) && !has_carrier(interface->route)
                                         ? -ENETDOWN
                                         : sent;
                          });
            sender.clear();
        }
    }

    void release(std::uint32_t /*pending*/) override { --in_flight_; }

    [[nodiscard]] Nanoseconds next_wake(Nanoseconds now) const override {
        if (!used_) {
            return std::numeric_limits<Nanoseconds>::max();
        }
        return more_ ? now : polled_ + (in_flight_ > 0 ? poll_gap_ : kIdleGap);
    }

    bool poll() override {
        polled_ = clock_.now();
        const auto take = [this](const ReplyHead& record) { take_record(record); };
        more_ = xdp_.drain(kMostRecords, take) == kMostRecords;
        return !more_;
    }

    void count_drops() override { parts_.statistics.receive_overflows += xdp_.overflows(); }

private:
    void open_lane(std::optional<Lane>& lane, const std::optional<Endpoint>& server) {
        if (!server) {
            return;
        }
        PacketRoute route = find_packet_route(server->address, kHopPatience);
        const FrameTemplate frames(route.macs, *server);
        lane = Lane{.frames = frames, .out = &open_interface(std::move(route))};
    }

    Interface& open_interface(PacketRoute route) {
        for (const auto& known : interfaces_) {
            if (known->route.interface == route.interface) {
                return *known;
            }
        }
        FileDescriptor mine = claim(route);
        auto sender = by_xdp([&] { return FrameSender(route); });
        interfaces_.push_back(std::make_unique<Interface>(Interface{.route = std::move(route),
                                                                    .claim = std::move(mine),
                                                                    .sender = std::move(sender),
                                                                    .queries = {}}));
        return *interfaces_.back();
    }

    void take_record(const ReplyHead& record) {
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&record + 1);
        const auto time = static_cast<Nanoseconds>(record.time);
        if (record.family == 0) {
            parts_.statistics.frames_taken += record.passed;
            take_frame({bytes, record.size}, time);
            return;
        }
        const Endpoint local{.address = record.family == 4 ? IpAddress::v4(record.address)
                                                           : IpAddress::v6(record.address),
                             .port = record.port};
        std::memcpy(prefix_.data(), bytes, prefix_.size());
        parts_.events.on_reply(
            owner_of(local),
            {.bytes = {prefix_.data(), std::min<size_t>(record.kept, prefix_.size())},
             .size = record.size,
             .received = time});
    }

    void take_frame(Bytes frame, Nanoseconds time) {
        const UnusualReplies::Result result = unusual_.read(frame, time);
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

    Nanoseconds poll_gap_; ///< longest time between two polls while queries are in flight
    CarrierParts parts_;
    const Clock& clock_;

    std::vector<std::unique_ptr<Interface>> interfaces_;
    std::optional<Lane> v4_;
    std::optional<Lane> v6_;
    XdpReceiver xdp_;
    UnusualReplies unusual_;
    std::array<std::uint8_t, kReplyPrefix> prefix_{}; ///< of the reply being handed over
    size_t in_flight_ = 0;
    std::uint16_t next_id_ = 0; ///< of IPv4
    bool used_ = false;         ///< anything was sent
    bool more_ = false;         ///< the last poll left replies behind
    Nanoseconds polled_ = 0;
};

} // namespace

std::unique_ptr<Carrier> packet_carrier(const CarrierWish& wish, const CarrierParts& parts) {
    return std::make_unique<PacketCarrier>(wish, parts);
}

std::string packet_verdict() {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return fmt::format("none {}", SystemError("make a network namespace").what());
    }
    PacketRoute loopback; // what does not depend on the driver works there
    loopback.interface = 1;
    loopback.name = "lo";
    try {
        const FrameSender sender(loopback);
        XdpReceiver({.v4 = Endpoint::parse("192.0.2.1:53"), .v6 = {}}, 512, false).attach(loopback);
        return "xdp";
    } catch (const std::system_error& error) {
        return fmt::format("none {}", error.what());
    }
}

} // namespace reprise::querier
