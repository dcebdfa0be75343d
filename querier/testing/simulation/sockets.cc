#include "querier/testing/simulation/sockets.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/carrier/socket.hh"
#include "querier/results/results.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/testing/simulation/network.hh"
#include "querier/udp/udp_carriers.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

class SimulatedUdp final : public Carrier {
public:
    SimulatedUdp(SimulatedNetwork& network, const CarrierWish& wish, const CarrierParts& parts)
        : network_(network), servers_(wish.servers), options_(wish.options), number_(wish.number),
          queries_(parts.queries), stamps_(parts.stamps), statistics_(parts.statistics),
          events_(parts.events) {}

    SendResult submit(std::uint32_t index) override {
        PendingQuery& pending = queries_[index];
        if (!servers_.of(pending.family())) {
            return SendResult::kFailed;
        }
        if (pending.record.query_size > kLargestDatagram) {
            return SendResult::kOversize;
        }
        if (!options_.local_address(pending.source.address, pending.record.source)) {
            return SendResult::kNoAddress;
        }
        pending.owner =
            owner_of((std::uint64_t{pending.record.source} << 8U) | number_, kOwnerSocket);
        staged_.push_back(index);
        return SendResult::kStaged;
    }

    void flush() override {
        const Nanoseconds now = network_.clock().now();
        for (const std::uint32_t index : std::exchange(staged_, {})) {
            const PendingQuery& pending = queries_[index];
            const auto server = servers_.of(pending.family());
            const auto local =
                options_.local_address(pending.source.address, pending.record.source);
            if (!server || !local) {
                continue; // not staged without them
            }
            const Bytes bytes = pending.bytes();
            network_.stall();
            network_.send_datagram(
                (local->family == 0 ? pending.source.address : *local).text(), *server,
                {bytes.begin(), bytes.end()},
                [this, owner = pending.owner](const auto& reply) { take(owner, reply); });
            events_.on_sent(index, {.before = now, .after = now});
        }
    }

    bool handle(const EventTag& /*tag*/, std::uint32_t /*events*/) override {
        while (!inbox_.empty()) {
            Datagram one = std::move(inbox_.front());
            inbox_.pop_front();
            if (one.bytes.empty()) {
                ++statistics_.unreachable;
                continue;
            }
            events_.on_reply(one.owner, {.bytes = one.bytes,
                                         .size = one.bytes.size(),
                                         .received = stamps_.convert(one.stamp)});
        }
        return true;
    }

private:
    struct Datagram {
        Owner owner = 0;
        std::vector<std::uint8_t> bytes;
        Nanoseconds stamp = 0;
    };

    void take(Owner owner, std::vector<std::uint8_t> bytes) {
        inbox_.push_back(
            {.owner = owner, .bytes = std::move(bytes), .stamp = network_.clock().pair().realtime});
        network_.raise_udp(number_);
    }

    SimulatedNetwork& network_;
    Servers servers_;
    const ReplayOptions& options_;
    std::uint8_t number_;
    PendingQueries& queries_;
    const StampClock& stamps_;
    Statistics& statistics_;
    CarrierEvents& events_;
    std::vector<std::uint32_t> staged_;
    std::deque<Datagram> inbox_;
};

class SimulatedTcp final : public TcpSocket {
public:
    SimulatedTcp(SimulatedNetwork& network, FlowPtr flow)
        : network_(network), flow_(std::move(flow)) {}

    SimulatedTcp(const SimulatedTcp&) = delete;
    SimulatedTcp& operator=(const SimulatedTcp&) = delete;

    ~SimulatedTcp() override { network_.client_closed(flow_); }

    void watch(EventTag tag) override {
        flow_->tag = tag;
        flow_->watched = true;
        if (flow_->connected || flow_->broken) {
            network_.raise(flow_);
        }
    }

    ssize_t send(Bytes bytes, More /*more*/) override {
        if (flow_->broken) {
            errno = flow_->error != 0 ? std::exchange(flow_->error, 0) : EPIPE;
            return -1;
        }
        const size_t room = flow_->reads_not ? kWindow - flow_->unread : bytes.size();
        const size_t taken = std::min(room, bytes.size());
        if (taken == 0 && !bytes.empty()) {
            errno = EAGAIN;
            return -1;
        }
        flow_->unread += flow_->reads_not ? taken : 0;
        network_.deliver(flow_, {bytes.begin(), bytes.begin() + static_cast<ssize_t>(taken)});
        return static_cast<ssize_t>(taken);
    }

    SocketRead read(std::span<std::uint8_t> buffer) override {
        const size_t size = std::min(buffer.size(), flow_->inbox.size());
        if (size > 0) {
            std::copy_n(flow_->inbox.begin(), size, buffer.begin());
            flow_->inbox.erase(flow_->inbox.begin(),
                               flow_->inbox.begin() + static_cast<ssize_t>(size));
            return {
                .bytes = buffer.first(size), .stamp = network_.clock().pair().realtime, .error = 0};
        }
        if (flow_->error != 0) {
            return {.bytes = {}, .stamp = 0, .error = std::exchange(flow_->error, 0)};
        }
        return {.bytes = {}, .stamp = 0, .error = flow_->fin || flow_->broken ? 0 : EAGAIN};
    }

    int take_error() override { return std::exchange(flow_->error, 0); }

    [[nodiscard]] bool unacknowledged(Nanoseconds for_time) const override {
        return flow_->unanswered != 0 && network_.clock().now() - flow_->unanswered >= for_time;
    }

    void acknowledge_now() override {}

    void disable_nagle() override {}

private:
    SimulatedNetwork& network_;
    FlowPtr flow_;
};

} // namespace

std::unique_ptr<Carrier> simulated_udp(SimulatedNetwork& network, const CarrierWish& wish,
                                       const CarrierParts& parts) {
    return std::make_unique<SimulatedUdp>(network, wish, parts);
}

std::unique_ptr<TcpSocket> simulated_tcp(SimulatedNetwork& network, FlowPtr flow) {
    return std::make_unique<SimulatedTcp>(network, std::move(flow));
}

} // namespace reprise::querier::testing
