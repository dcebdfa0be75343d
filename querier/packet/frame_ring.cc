#include "querier/packet/frame_ring.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "querier/packet/route.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <vector>

namespace reprise::querier {
namespace {

constexpr size_t kBlock = 1 << 20;
/// The kernel's header of a frame and its alignment, generously.
constexpr size_t kOverhead = 128;

size_t frame_size(const PacketRoute& route) {
    return std::clamp(std::bit_ceil(route.mtu + kOverhead), size_t{2048}, kBlock);
}

template <typename Value>
void set(int socket, int option, const Value& value, const char* attempt) {
    check(setsockopt(socket, SOL_PACKET, option, &value, sizeof value), attempt);
}

} // namespace

FrameRing::FrameRing(const PacketRoute& route, const Servers& servers, size_t frames)
    : socket_(check(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), "open a packet socket")),
      frame_size_(frame_size(route)) {
    const size_t blocks = std::max<size_t>(1, frames * frame_size_ / kBlock);
    count_ = blocks * (kBlock / frame_size_);
    set(socket_.get(), PACKET_VERSION, int{TPACKET_V2}, "choose the ring's version");
    set(socket_.get(), PACKET_IGNORE_OUTGOING, 1, "leave out what this host sends");
    // Before the socket is bound, so that no other frame ever comes in.
    std::vector<sock_filter> filter = reply_filter(servers);
    const sock_fprog program{.len = static_cast<unsigned short>(filter.size()),
                             .filter = filter.data()};
    check(setsockopt(socket_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program),
          "attach the filter of replies");
    const tpacket_req request{.tp_block_size = static_cast<unsigned>(kBlock),
                              .tp_block_nr = static_cast<unsigned>(blocks),
                              .tp_frame_size = static_cast<unsigned>(frame_size_),
                              .tp_frame_nr = static_cast<unsigned>(count_)};
    set(socket_.get(), PACKET_RX_RING, request, "make the ring of replies");
    memory_ = Mapping(blocks * kBlock, socket_.get(), 0, "map the ring of replies");
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(route.interface);
    check(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
          "bind the ring of replies");
}

FrameRing::Frame FrameRing::front() {
    std::uint8_t* place = memory_.at(next_ * frame_size_);
    auto* header = reinterpret_cast<tpacket2_hdr*>(place);
    if ((std::atomic_ref(header->tp_status).load(std::memory_order_acquire) & TP_STATUS_USER) ==
        0) {
        return {};
    }
    return {.bytes = {place + header->tp_mac, header->tp_snaplen},
            .wire_length = header->tp_len,
            .time = header->tp_sec * kSecond + header->tp_nsec};
}

void FrameRing::release() {
    auto* header = reinterpret_cast<tpacket2_hdr*>(memory_.at(next_ * frame_size_));
    std::atomic_ref(header->tp_status).store(TP_STATUS_KERNEL, std::memory_order_release);
    next_ = next_ + 1 == count_ ? 0 : next_ + 1;
}

std::uint64_t FrameRing::take_drops() {
    tpacket_stats statistics{};
    socklen_t size = sizeof statistics;
    check(getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size),
          "read the ring's drops");
    return statistics.tp_drops;
}

} // namespace reprise::querier
