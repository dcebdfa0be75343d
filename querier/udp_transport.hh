#pragma once
// UDP in source mode "ports": one connected socket a source, so that the kernel keeps the sources
// apart by port and hands us ICMP errors and only the server's packets.

#include "core/clock.hh"
#include "core/fd.hh"
#include "querier/descriptors.hh"
#include "querier/links.hh"
#include "querier/poller.hh"
#include "querier/slots.hh"
#include "querier/stamps.hh"
#include "querier/statistics.hh"
#include "querier/transport.hh"

#include <cstddef>
#include <cstdint>
#include <sys/socket.h>
#include <unordered_map>
#include <vector>

namespace reprise::querier {

class UdpTransport {
public:
    UdpTransport(Poller& poller, Descriptors& descriptors, Slots& slots, const Servers& servers,
                 Statistics& statistics, TransportEvents& events);

    /// Sends the slot's query from its source's socket, which is opened where needed. On kDone the
    /// slot's place, owner and send time (read right before the system call) are set; otherwise
    /// nothing has changed.
    SendResult send(std::uint32_t slot);

    /// Takes one batch of replies from the socket of an event.
    void receive(const EventTag& tag, const StampClock& stamps);

    /// A query on this socket ended.
    void release(std::uint32_t place);

    /// Closes the least recently used socket no query waits on; false where there is none.
    bool evict_idle();

private:
    struct Socket {
        FileDescriptor fd;
        std::uint32_t source = 0;
        std::uint32_t owner = 0;      ///< number of this socket, never used again
        std::uint32_t generation = 0; ///< of this place in sockets_
        std::uint32_t in_flight = 0;
        std::uint32_t overflows = 0; ///< as the kernel counts them
        Links idle;
    };

    static constexpr size_t kBatch = 16;
    static constexpr size_t kBufferSize = 65536;

    /// Place of the source's socket, or kNone with the reason in `result`.
    std::uint32_t socket_for(std::uint32_t source, std::uint8_t family, SendResult& result);
    SendResult open(FileDescriptor& fd, std::uint8_t family);
    std::uint32_t adopt(FileDescriptor fd, std::uint32_t source);
    void close(std::uint32_t place);
    void take_batch(Socket& socket, int count, const StampClock& stamps);
    Nanoseconds read_control(Socket& socket, msghdr& message);

    Poller& poller_;
    Descriptors& descriptors_;
    Slots& slots_;
    Servers servers_;
    Statistics& statistics_;
    TransportEvents& events_;

    std::vector<Socket> sockets_;
    std::vector<std::uint32_t> free_;
    IndexList<&Socket::idle> idle_; ///< least recently used first
    std::unordered_map<std::uint32_t, std::uint32_t> by_source_;
    std::uint32_t next_owner_ = 1;

    struct alignas(cmsghdr) Control {
        std::uint8_t bytes[128];
    };

    std::vector<std::uint8_t> buffers_;
    std::vector<Control> controls_;
    std::vector<iovec> vectors_;
    std::vector<mmsghdr> messages_;
};

} // namespace reprise::querier
