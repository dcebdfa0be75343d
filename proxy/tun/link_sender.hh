#pragma once
// Sends packets straight to the next hop, many in one system call.
//
// Problem. What is written to the TUN device takes the host's whole way of a forwarded packet: a
// fresh reception, a look through all routing rules, the route, the neighbor; one packet a system
// call. That is most of what a packet costs here.
//
// Idea. The destinations are few and known: the meta addresses beside a resolver, the resolvers
// beside the meta-DNS-server. So their routes and neighbors are looked up once, and packets go by
// a packet socket to the interface and hardware address that the kernel would have used; captures
// and queueing disciplines of that interface see them. The kernel tells of changed routes, rules,
// settings and neighbors, which are looked up again within 100 ms, a slice of them at a time, so
// that packets do not wait for it. Once a second one packet to each next hop takes the kernel's
// way, so that the kernel keeps the neighbor resolved, for it confirms only neighbors that it
// uses itself. Whatever does not fit (no Ethernet, a neighbor not resolved yet, a link that takes
// no more) goes by the device as before: this is a short cut, never a condition. Only what is
// longer than the link allows is refused, for the kernel would send an error message about it.
//
// The question to rtnetlink is about a packet that comes in on the TUN device, with addresses,
// protocol and ports as the packets have them. So routing rules by interface, source, protocol or
// port count, as do the checks of forwarding and of reverse paths: where the kernel would drop the
// packet there is no next hop. One example stands for all packets to its destination: rules that
// tell apart servers of one meta address, or UDP from TCP, are not seen.
//
// Cost of a packet, everything included, with both hosts on two busy cores and dnsperf asking as
// fast as it can: 4.5 to 5.3 µs through the device, 3.1 to 3.8 µs past it. Of the latter a third is
// the receiver's network stack, which is on the same machine there. Raw IP sockets, which leave
// neighbors to the kernel, cost 4.1 to 4.4 µs; IFF_NAPI on the device made it 0.8 µs dearer.
// (`reprise bench hierarchy --only path` measures it.)

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/fd.hh"
#include "core/base/netlink.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/rewrite.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <linux/if_packet.h>
#include <map>
#include <optional>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unordered_map>
#include <vector>

namespace reprise::proxy {

/// The neighbor on a link that leads to some destination.
struct Gateway {
    unsigned interface = 0;
    IpAddress address; ///< of the gateway, or the destination itself where it is on the link

    auto operator<=>(const Gateway&) const = default;
};

/// What is known of the packets to one destination.
struct Flow {
    IpAddress source; ///< of one of them
    IpAddress destination;
    std::uint16_t source_port = 0; ///< 0 for any
    std::uint16_t destination_port = 0;
};

/// All addresses to which this side's packets go, each with an example of its packets.
std::vector<Flow> flows(const AddressMap& map, Side side, unsigned resolver);

/// The addresses to which this side's packets go, one of each family and neighbor: of every
/// instance beside a resolver, of every resolver beside the meta-DNS-server.
std::vector<IpAddress> neighbors(const AddressMap& map, Side side, unsigned resolver);

class LinkSender {
public:
    /// For packets of `flows` that come in on the interface numbered `incoming`. Throws
    /// SystemError, for example without the right to open packet sockets.
    LinkSender(std::vector<Flow> flows, unsigned incoming);

    /// Copies a packet for the next flush(). False where it must go by the device: no next hop, or
    /// no room.
    bool add(Bytes packet);

    /// What became of the packets of one flush(); those not counted here went by the device.
    struct Sent {
        size_t sent = 0;
        size_t too_long = 0; ///< for the link; dropped
    };

    /// Sends what was added, in order. Never waits: once the link takes no more, the rest goes to
    /// `by_device`.
    Sent flush(const std::function<void(Bytes)>& by_device);

    [[nodiscard]] bool full() const { return filled_ == kBatch; }

    /// Looks up again what the kernel says has changed; cheap where nothing has. Between a flush()
    /// and the next add().
    void refresh();

    /// Whether refresh() has left work for the next call.
    [[nodiscard]] bool busy() const { return next_ < flows_.size(); }

    /// Lets the next packet to each next hop take the kernel's way.
    void confirm();

private:
    static constexpr size_t kBatch = 64;
    static constexpr size_t kRoom = 2'048; ///< larger packets go by the device

    struct Hop {
        std::optional<sockaddr_ll> to; ///< none where packets go by the device
        bool by_kernel = false;        ///< the next packet takes the kernel's way
    };

    void begin_round();
    void look_up(size_t most);
    std::optional<Gateway> gateway(const Flow& flow);
    std::optional<sockaddr_ll> neighbor(const Gateway& gateway);

    std::vector<Flow> flows_;
    unsigned incoming_;
    size_t next_ = 0;       ///< the flow that this round of look-ups comes to next
    bool outdated_ = false; ///< another round is wanted
    Netlink ask_;
    Netlink listen_;           ///< to whatever may change where a packet goes
    bool forwards_v6_ = false; ///< the host, as this round has seen it
    std::map<Gateway, Hop> hops_;
    std::unordered_map<IpAddress, Hop*> by_destination_; ///< of hops_
    FileDescriptor socket_;
    std::vector<std::uint8_t> room_;
    std::vector<iovec> pieces_;
    std::vector<mmsghdr> messages_;
    size_t filled_ = 0;
};

} // namespace reprise::proxy
