#pragma once
// UDP in source mode "ports": one connected socket a source, so that the kernel keeps the sources
// apart by port and hands us ICMP errors and only the server's packets.

#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "querier/network/network.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/sockets/descriptors.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/stamps.hh"
#include "querier/sockets/transport.hh"
#include "querier/sockets/udp_socket.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unordered_map>
#include <vector>

namespace reprise::querier {

class PortsTransport final : public UdpTransport {
public:
    PortsTransport(Poller& poller, const Clock& clock, const UdpWish& wish, const UdpParts& parts);

    /// The source's socket is opened where needed.
    SendResult stage(std::uint32_t pending) override;
    void flush() override;
    void prepare(std::uint32_t source, std::uint8_t family) override;
    void rehearse(std::uint32_t pending) override;
    bool receive(const EventTag& tag, const StampClock& stamps) override;
    void release(std::uint32_t place) override;
    bool evict_idle() override;
    void count_drops() override;

private:
    struct Socket {
        FileDescriptor fd;
        std::uint32_t source = 0;
        std::uint32_t generation = 0; ///< of this place in sockets_
        Owner owner = 0;
        std::uint32_t in_flight = 0; ///< queries staged or sent
        SocketDrops drops;
        Links idle;
    };

    struct Staged {
        std::uint32_t place = 0;
        std::uint32_t pending = 0;
        std::uint32_t order = 0;
    };

    /// Place of the source's socket, or kNone with the reason in `result`.
    std::uint32_t socket_for(std::uint32_t source, std::uint8_t family, SendResult& result);
    SendResult open(FileDescriptor& fd, std::uint8_t family);
    std::uint32_t adopt(FileDescriptor fd, std::uint32_t source);
    void close(std::uint32_t place);
    /// Sends the queries of one socket; the time when it was done.
    Nanoseconds send_run(std::span<const Staged> run, Nanoseconds now);
    int send_some(int fd, std::span<const Staged> run);
    void refuse(std::span<const Staged> run, int error);
    void take_batch(Socket& socket, size_t count, const StampClock& stamps);

    Poller& poller_;
    const Clock& clock_;
    Descriptors& descriptors_;
    PendingQueries& queries_;
    Servers servers_;
    Statistics& statistics_;
    TransportEvents& events_;
    std::uint8_t number_;

    std::vector<Socket> sockets_;
    std::vector<std::uint32_t> free_;
    IndexList<&Socket::idle> idle_; ///< least recently used first
    std::unordered_map<std::uint32_t, std::uint32_t> by_source_;
    std::uint64_t last_owner_ = 0;
    std::vector<Staged> staged_;
    bool busy_ = false; ///< the kernel had no memory during this flush
    std::array<iovec, kMostStaged> vectors_{};
    std::array<mmsghdr, kMostStaged> messages_{};
    ReceiveBatch batch_{false};
};

} // namespace reprise::querier
