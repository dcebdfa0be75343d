#pragma once
// UDP in the source modes "addresses" and "mapped": one socket a family for all sources; each query
// names its source address (IP_PKTINFO). The addresses are local ones by a route of type local
// (AnyIP), or IP_TRANSPARENT lets us use them; answers come back to the same socket and say which
// address they are for. 100,000 sources need no more memory or descriptors here than ten.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "querier/network/network.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/stamps.hh"
#include "querier/sockets/transport.hh"
#include "querier/sockets/udp_socket.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

namespace reprise::querier {

class AddressesTransport final : public UdpTransport {
public:
    /// Throws SystemError where the sockets cannot be opened.
    AddressesTransport(Poller& poller, const Clock& clock, const UdpWish& wish,
                       const UdpParts& parts);

    SendResult stage(std::uint32_t pending) override;
    void flush() override;
    void rehearse(std::uint32_t pending) override;
    bool receive(const EventTag& tag, const StampClock& stamps) override;

    void release(std::uint32_t /*place*/) override {}

    bool evict_idle() override { return false; }

    void count_drops() override;

private:
    struct alignas(cmsghdr) Control {
        std::uint8_t bytes[CMSG_SPACE(sizeof(in6_pktinfo))];
    };

    /// Everything of one address family.
    struct Family {
        FileDescriptor fd;
        std::uint16_t port = 0; ///< ours
        SocketDrops drops;
        sockaddr_storage server{};
        socklen_t server_size = 0;
        std::vector<std::uint32_t> staged;
        std::array<iovec, kMostStaged> vectors{};
        std::array<Control, kMostStaged> controls{};
        std::array<mmsghdr, kMostStaged> messages{};
    };

    void open(Family& family, const Endpoint& server);
    static void set_source(Family& family, size_t index, const IpAddress& source);
    void flush(Family& family);
    /// Sends some; the queries done with.
    size_t send_some(Family& family, size_t first, Nanoseconds& now);
    int send_in_fragments(Family& family, size_t index);
    void drain_errors(Family& family);
    void take_batch(Family& family, size_t count, const StampClock& stamps);

    Poller& poller_;
    const Clock& clock_;
    PendingQueries& queries_;
    Statistics& statistics_;
    TransportEvents& events_;
    SourceOf source_;
    std::uint8_t number_;
    std::array<std::unique_ptr<Family>, 2> families_; ///< IPv4, IPv6
    ReceiveBatch batch_{true};
};

} // namespace reprise::querier
