#include "querier/packet/sender.hh"

#include "core/error.hh"
#include "querier/packet/frame.hh"
#include "querier/packet/route.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace reprise::querier {
namespace {

constexpr int kSendBuffer = 8 << 20;
constexpr size_t kCacheLine = 64;

} // namespace

PacketSender::PacketSender(const PacketRoute& route)
    : socket_(check(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                    "open a packet socket")),
      interface_(route.interface), name_(route.name),
      stride_((route.mtu + kEthernetHeader + kCacheLine - 1) / kCacheLine * kCacheLine),
      frames_(kBatch * stride_), vectors_(kBatch), messages_(kBatch) {
    const int on = 1;
    check(setsockopt(socket_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on),
          "send past the queueing discipline");
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof kSendBuffer);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(interface_);
    check(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
          fmt::format("bind to interface {}", name_).c_str());
    for (size_t i = 0; i < kBatch; ++i) {
        vectors_[i].iov_base = &frames_[i * stride_];
        messages_[i].msg_hdr.msg_iov = &vectors_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
    }
}

int PacketSender::send(size_t first) {
    const int taken = ::sendmmsg(socket_.get(), &messages_[first],
                                 static_cast<unsigned>(staged_ - first), MSG_NOSIGNAL);
    return taken < 0 ? -errno : taken;
}

bool PacketSender::running() const {
    ifreq request{};
    std::memcpy(request.ifr_name, name_.data(), std::min<size_t>(name_.size(), IFNAMSIZ - 1));
    return ioctl(socket_.get(), SIOCGIFFLAGS, &request) == 0 &&
           (request.ifr_flags & IFF_RUNNING) != 0;
}

} // namespace reprise::querier
