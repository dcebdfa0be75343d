#include "proxy/tun/link_sender.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "proxy/tun/next_hop.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::proxy {

namespace {

/// Destinations looked up in one go: about half a millisecond.
constexpr size_t kSlice = 128;

/// Protocol 0: the socket receives nothing.
FileDescriptor packet_socket() {
    return FileDescriptor(
        check(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "open a packet socket"));
}

/// Of a packet that the rewriting has passed, so its headers are whole.
IpAddress destination_of(Bytes packet) {
    return packet[0] >> 4U == 4 ? IpAddress::v4(&packet[16]) : IpAddress::v6(&packet[24]);
}

} // namespace

LinkSender::LinkSender(std::vector<Flow> flows, unsigned incoming)
    : flows_(std::move(flows)), tables_(incoming), socket_(packet_socket()), room_(kBatch * kRoom),
      pieces_(kBatch), messages_(kBatch) {
    for (size_t i = 0; i < kBatch; ++i) {
        pieces_[i].iov_base = room_.data() + i * kRoom;
        messages_[i].msg_hdr.msg_iov = &pieces_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
        messages_[i].msg_hdr.msg_namelen = sizeof(sockaddr_ll);
    }
    begin_round();
    look_up(flows_.size());
}

void LinkSender::begin_round() {
    if (hops_.size() > flows_.size()) { // most lead nowhere any more
        hops_.clear();
        by_gateway_.clear();
        by_destination_.clear();
    }
    tables_.forget();
    outdated_ = false;
    next_ = 0;
    ++round_;
}

void LinkSender::look_up(size_t most) {
    for (; most != 0 && busy(); --most) {
        look_up_route(flows_[next_++]);
    }
}

void LinkSender::look_up_route(const Flow& flow) {
    const auto gateway = tables_.gateway(flow);
    if (!gateway) {
        by_destination_.erase(flow.destination);
        return;
    }
    Hop& hop = hop_by(*gateway);
    if (std::exchange(hop.round, round_) != round_) {
        look_up_neighbor(hop);
    }
    by_destination_[flow.destination] = static_cast<size_t>(&hop - hops_.data());
}

LinkSender::Hop& LinkSender::hop_by(const Gateway& gateway) {
    const auto [found, fresh] = by_gateway_.try_emplace(gateway, hops_.size());
    if (fresh) {
        hops_.push_back({.gateway = gateway});
    }
    return hops_[found->second];
}

void LinkSender::look_up_neighbor(Hop& hop) {
    const auto to = tables_.neighbor(hop.gateway);
    hop.usable = to.has_value();
    hop.to = to.value_or(sockaddr_ll{});
}

void LinkSender::refresh() {
    const RoutingTables::Changes changes = tables_.changes();
    for (const Gateway& gateway : changes.neighbors) {
        if (const auto found = by_gateway_.find(gateway); found != by_gateway_.end()) {
            look_up_neighbor(hops_[found->second]);
        }
    }
    outdated_ = outdated_ || changes.routes;
    if (outdated_ && !busy()) { // a round that is under way ends first, or it never might
        begin_round();
    }
    look_up(kSlice);
}

void LinkSender::replace(std::vector<Flow> flows) {
    flows_ = std::move(flows);
    by_destination_.clear();
    begin_round();
}

void LinkSender::confirm() {
    for (Hop& hop : hops_) {
        hop.by_kernel = true;
    }
}

LinkSender::Hop* LinkSender::hop_of(Bytes packet) {
    const auto found = by_destination_.find(destination_of(packet));
    return found == by_destination_.end() ? nullptr : &hops_[found->second];
}

bool LinkSender::add(Bytes packet) {
    Hop* const hop = hop_of(packet);
    if (hop == nullptr || packet.size() > kRoom || full()) {
        return false;
    }
    if (!hop->usable || std::exchange(hop->by_kernel, false)) {
        return false;
    }
    std::ranges::copy(packet, static_cast<std::uint8_t*>(pieces_[filled_].iov_base));
    pieces_[filled_].iov_len = packet.size();
    messages_[filled_].msg_hdr.msg_name = &hop->to;
    ++filled_;
    return true;
}

/// Moves `first` past what is done with.
LinkSender::Next LinkSender::send_from(size_t& first, Sent& result) {
    const auto count = static_cast<unsigned>(filled_ - first);
    const int taken = sendmmsg(socket_.get(), &messages_[first], count, MSG_DONTWAIT);
    if (taken >= 0) {
        result.sent += static_cast<size_t>(taken);
        first += static_cast<size_t>(taken);
        return Next::kGoOn;
    }
    switch (errno) { // of the first packet
    case EINTR:
        return Next::kGoOn;
    case EMSGSIZE:
        ++result.too_long;
        ++first;
        return Next::kGoOn;
    case EAGAIN: // the link's queue stands still
        return Next::kAllByDevice;
    default:
        return Next::kFirstByDevice;
    }
}

} // namespace reprise::proxy
