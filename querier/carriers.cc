#include "core/wire/query.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/connection/connection.hh"
#include "querier/in_flight.hh"
#include "querier/schedule/pending_queries.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace reprise::querier {
namespace {

/// A socket that holds data for longer is not waited for: it is being flooded.
constexpr Nanoseconds kLongestUnread = kSecond;

} // namespace

Carriers::Carriers(const ReplayOptions& options, const CarrierParts& parts)
    : queries_(parts.queries) {
    by_transport_.fill(kMost);
    CarrierWish wish{.options = options, .servers = options.servers};
    const auto add = [&](std::unique_ptr<Carrier> carrier, const auto&... transports) {
        ((by_transport_.at(static_cast<size_t>(transports)) = wish.number), ...);
        carriers_.push_back(std::move(carrier));
        ++wish.number;
    };
    add(parts.network.udp_carrier(wish, parts), Transport::kUdp);
    while (wish.number <= options.hedge_peers.size()) {
        wish.servers = options.servers_of(wish.number);
        add(parts.network.udp_carrier(wish, parts));
    }
    add(connection_carrier(wish, parts), Transport::kTcp, Transport::kTls,
        Transport::kStatelessTcp);
}

SendResult Carriers::submit(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    pending.carrier =
        pending.transport == Transport::kUdp ? pending.peer : number_of(pending.transport);
    if (pending.carrier == kMost) {
        return SendResult::kFailed;
    }
    Carrier& carrier = *carriers_[pending.carrier];
    const SendResult result = carrier.submit(index);
    const auto evict = [](const auto& one) { return one->evict(); };
    return result == SendResult::kNoRoom && std::ranges::any_of(carriers_, evict)
               ? carrier.submit(index)
               : result;
}

void Carriers::flush() {
    for (const auto& one : carriers_) {
        one->flush();
    }
}

void Carriers::looked(Nanoseconds time, bool all) {
    for (const auto& one : carriers_) {
        all = one->poll() && all;
    }
    if (all) {
        read_ = time;
        left_since_ = 0;
        return;
    }
    left_since_ = left_since_ == 0 ? time : left_since_;
    if (time - left_since_ > kLongestUnread) {
        read_ = std::max(read_, time - kLongestUnread);
    }
}

void Carriers::tidy(Nanoseconds now) {
    for (const auto& one : carriers_) {
        one->tidy(now);
    }
}

Nanoseconds Carriers::next_wake(Nanoseconds now) const {
    Nanoseconds wake = std::numeric_limits<Nanoseconds>::max();
    for (const auto& one : carriers_) {
        wake = std::min(wake, one->next_wake(now));
    }
    return wake;
}

void Carriers::count_drops() {
    for (const auto& one : carriers_) {
        one->count_drops();
    }
}

} // namespace reprise::querier
