#include "querier/packet/packet_sender.hh"

#include "core/base/error.hh"
#include "querier/packet/frame.hh"
#include "querier/packet/route.hh"
#include "querier/packet/xsk_sender.hh"
#include "querier/sockets/carrier.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <linux/if_packet.h>
#include <memory>
#include <span>
#include <string>
#include <sys/socket.h>
#include <sys/uio.h>
#include <system_error>

namespace reprise::querier {

std::unique_ptr<FrameSender> open_sender(const PacketRoute& route, std::string& why) {
    if (!XskSender::carries(route)) {
        why = "frames of this MTU are too large for an XDP socket";
        return std::make_unique<PacketSender>(route);
    }
    try {
        return std::make_unique<XskSender>(route);
    } catch (const std::system_error& error) {
        why = error.what();
        return std::make_unique<PacketSender>(route);
    }
}

namespace {

constexpr int kPacketSendBuffer = 8 << 20;
constexpr size_t kCacheLine = 64;

} // namespace

PacketSender::PacketSender(const PacketRoute& route)
    : socket_(check(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                    "open a packet socket")),
      stride_((route.mtu + kEthernetHeader + kCacheLine - 1) / kCacheLine * kCacheLine),
      frames_(kBatch * stride_), vectors_(kBatch), messages_(kBatch) {
    const int on = 1;
    check(setsockopt(socket_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on),
          "send past the queueing discipline");
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kPacketSendBuffer,
               sizeof kPacketSendBuffer);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(route.interface);
    check(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
          fmt::format("bind a packet socket to {}", route.name).c_str());
    for (size_t i = 0; i < kBatch; ++i) {
        vectors_[i].iov_base = &frames_[i * stride_];
        messages_[i].msg_hdr.msg_iov = &vectors_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
    }
}

std::span<std::uint8_t> PacketSender::room() {
    if (staged_ == kBatch) {
        return {};
    }
    return {&frames_[staged_ * stride_], stride_};
}

int PacketSender::send(size_t first) {
    const size_t most = std::min(staged_ - first, kMostInCall);
    const int taken =
        ::sendmmsg(socket_.get(), &messages_[first], static_cast<unsigned>(most), MSG_NOSIGNAL);
    return taken < 0 ? -errno : taken;
}

} // namespace reprise::querier
