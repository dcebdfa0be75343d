#pragma once
// Sends packets straight to the next hop, many in one system call.
//
// Problem. What is written to the TUN device takes the host's whole way of a forwarded packet: a
// fresh reception, a look through all routing rules, the route, the neighbour; one packet a system
// call. That is most of what a packet costs here.
//
// Idea. The destinations are few and known: the meta addresses beside a resolver, the resolvers
// beside the meta-DNS-server. So their routes and neighbours are looked up once, and packets go by
// a packet socket to the interface and hardware address that the kernel would have used; captures
// and queueing disciplines of that interface see them. The kernel tells of changed routes and
// neighbours, which are looked up again within 100 ms. Once a second one packet to each next hop
// takes the kernel's way, so that the kernel keeps the neighbour resolved, for it confirms only
// neighbours that it uses itself. Whatever does not fit (no Ethernet, a neighbour not resolved yet,
// a packet that the link refuses) goes by the device as before: this is a short cut, never a
// condition.
//
// Cost of a packet, everything included, with both hosts on two busy cores and dnsperf asking as
// fast as it can: 4.5 to 5.3 µs through the device, 3.1 to 3.8 µs past it. Of the latter a third is
// the receiver's network stack, which is on the same machine there. Raw IP sockets, which leave
// neighbours to the kernel, cost 4.1 to 4.4 µs; IFF_NAPI on the device made it 0.8 µs dearer.
// (tests/proxy_cost.py measures it.)

#include "core/address.hh"
#include "core/bytes.hh"
#include "core/fd.hh"
#include "proxy/next_hop.hh"

#include <cstddef>
#include <cstdint>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unordered_map>
#include <vector>

namespace reprise::proxy {

class LinkSender {
public:
    /// For packets to `destinations`. Throws SystemError, for example without the right to open
    /// packet sockets.
    explicit LinkSender(std::vector<IpAddress> destinations);

    /// Copies a packet for the next flush(). False where it must go by the device: no next hop, or
    /// no room.
    bool add(Bytes packet);

    /// Sends what was added, in order. Hands those that the link did not take to
    /// `refused(Bytes packet)`. Returns how many were sent.
    template <typename Refused> size_t flush(Refused&& refused) {
        size_t sent = 0;
        for (size_t from = 0; from < filled_;) {
            const size_t taken = send_from(from);
            sent += taken;
            from += taken;
            if (from < filled_) { // the first one that was not taken
                refused(Bytes(static_cast<const std::uint8_t*>(pieces_[from].iov_base),
                              pieces_[from].iov_len));
                ++from;
            }
        }
        filled_ = 0;
        return sent;
    }

    [[nodiscard]] bool full() const { return filled_ == kBatch; }

    /// Looks up again what the kernel says has changed; cheap where nothing has.
    void refresh();

    /// Lets the next packet to each next hop take the kernel's way.
    void confirm();

private:
    static constexpr size_t kBatch = 64;
    static constexpr size_t kRoom = 2'048; ///< larger packets go by the device

    struct Hop {
        Gateway gateway;
        sockaddr_ll to{};
        bool usable = false;
        bool by_kernel = false; ///< the next packet takes the kernel's way
    };

    void look_up_routes();
    void look_up_neighbours();
    Hop* hop_of(Bytes packet);
    size_t send_from(size_t first);

    std::vector<IpAddress> destinations_;
    RoutingTables tables_;
    FileDescriptor socket_;
    std::vector<Hop> hops_;
    std::unordered_map<IpAddress, size_t> by_destination_; ///< index into hops_
    std::vector<std::uint8_t> room_;
    std::vector<iovec> pieces_;
    std::vector<mmsghdr> messages_;
    size_t filled_ = 0;
};

} // namespace reprise::proxy
