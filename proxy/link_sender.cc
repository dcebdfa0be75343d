#include "proxy/link_sender.hh"

#include "core/address.hh"
#include "core/bytes.hh"
#include "core/error.hh"
#include "core/fd.hh"
#include "proxy/next_hop.hh"

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

LinkSender::LinkSender(std::vector<IpAddress> destinations)
    : destinations_(std::move(destinations)), socket_(packet_socket()), room_(kBatch * kRoom),
      pieces_(kBatch), messages_(kBatch) {
    for (size_t i = 0; i < kBatch; ++i) {
        pieces_[i].iov_base = room_.data() + i * kRoom;
        messages_[i].msg_hdr.msg_iov = &pieces_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
        messages_[i].msg_hdr.msg_namelen = sizeof(sockaddr_ll);
    }
    look_up_routes();
}

void LinkSender::look_up_routes() {
    hops_.clear();
    by_destination_.clear();
    for (const IpAddress& destination : destinations_) {
        const auto gateway = tables_.gateway(destination);
        if (!gateway) {
            continue;
        }
        auto hop = std::ranges::find(hops_, *gateway, &Hop::gateway);
        if (hop == hops_.end()) {
            hop = hops_.insert(hops_.end(), Hop{.gateway = *gateway});
        }
        by_destination_[destination] = static_cast<size_t>(hop - hops_.begin());
    }
    look_up_neighbours();
}

void LinkSender::look_up_neighbours() {
    for (Hop& hop : hops_) {
        const auto to = tables_.neighbour(hop.gateway);
        hop.usable = to.has_value();
        hop.to = to.value_or(sockaddr_ll{});
    }
}

void LinkSender::refresh() {
    const RoutingTables::Changes changes = tables_.changes();
    if (changes.routes) {
        look_up_routes();
    } else if (changes.neighbours) {
        look_up_neighbours();
    }
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

size_t LinkSender::send_from(size_t first) {
    const auto count = static_cast<unsigned>(filled_ - first);
    const int sent = sendmmsg(socket_.get(), &messages_[first], count, 0);
    if (sent < 0 && errno == EINTR) {
        return send_from(first);
    }
    return sent < 0 ? 0 : static_cast<size_t>(sent);
}

} // namespace reprise::proxy
