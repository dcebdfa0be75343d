#pragma once
// Calls of the kernel's sockets, and a TCP connection as carriers see it.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "querier/carrier/carrier.hh"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <sys/socket.h>
#include <sys/types.h>
#include <utility>

namespace reprise::querier {

/// Sets an integer option; false where the kernel refuses.
bool set_option(int fd, int level, int name, int value);

/// No buffer now, as opposed to never.
bool no_buffer(int error);

/// What this errno of a send means for the query.
SendResult refusal(int error);

/// Sends queries in their order, and tells what became of each (on_sent, on_refused). `call(first)`
/// hands those from number `first` on to the kernel; it returns how many of them the kernel took,
/// or the negative errno of the first. `now`: the time, before and after. Returns the errno of the
/// last call; 0: it was good.
template <typename Call>
int send_in_order(std::span<const std::uint32_t> queries, const Clock& clock, CarrierEvents& events,
                  Nanoseconds& now, const Call& call) {
    int error = 0;
    for (size_t first = 0; first < queries.size();) {
        const int sent = call(first);
        const SendCall times{.before = std::exchange(now, clock.now()), .after = now};
        error = sent < 0 ? -sent : 0;
        // What waits for buffers waits together, in its order; else each for itself.
        const size_t count = sent >= 0          ? static_cast<size_t>(sent)
                             : no_buffer(error) ? queries.size() - first
                                                : 1;
        for (const std::uint32_t one : queries.subspan(first, count)) {
            if (error == 0) {
                events.on_sent(one, times);
            } else {
                events.on_refused(one, refusal(error));
            }
        }
        first += count;
    }
    return error;
}

/// What came with bytes besides them.
struct Ancillary {
    Nanoseconds stamp = 0; ///< kernel's, CLOCK_REALTIME; 0 = none
    IpAddress local;       ///< address it was sent to, where asked for
    /// In the queue of errors: it is one that came by ICMP. This host's own ones, e.g. of a query
    /// too large for one packet, are in it as well.
    bool icmp = false;
};

Ancillary read_ancillary(const msghdr& message);

/// recvmsg: how many bytes of a stream or a datagram, or -1 with errno.
ssize_t receive(int fd, std::span<std::uint8_t> buffer, int flags, Ancillary& with);

/// What one read brought.
struct SocketRead {
    std::span<std::uint8_t> bytes;
    Nanoseconds stamp = 0; ///< realtime of the last segment's arrival; 0 = unknown
    int error = 0;         ///< errno; 0 with no bytes = the peer closed its side
};

enum class More : std::uint8_t { kNo, kYes }; ///< more bytes follow at once

/// A TCP connection, from the SYN on. Nothing waits. The destructor closes it.
class TcpSocket {
public:
    virtual ~TcpSocket() = default;

    /// Its events are reported under `tag`, each once (EPOLLET). Called again: those that still
    /// stand are reported once more.
    virtual void watch(EventTag tag) = 0;

    /// How many bytes were taken, or -1 with errno.
    virtual ssize_t send(Bytes bytes, More more) = 0;

    virtual SocketRead read(std::span<std::uint8_t> buffer) = 0;

    /// The pending error, an errno; 0 = none.
    virtual int take_error() = 0;

    /// The peer has acknowledged nothing for so long, although it was asked again and again.
    [[nodiscard]] virtual bool unacknowledged(Nanoseconds for_time) const = 0;

    /// Acknowledges now what was read. A server that leaves Nagle's algorithm on holds its next
    /// answer until the last one is acknowledged, which the kernel delays by 40 ms.
    virtual void acknowledge_now() = 0;

    /// Sends small segments at once.
    virtual void disable_nagle() = 0;
};

/// A connection in the making.
struct OpenedSocket {
    std::unique_ptr<TcpSocket> socket;
    SendCall call; ///< connect(), which sends the SYN
    int error = 0; ///< errno; EADDRNOTAVAIL = `source` is not an address of this host
};

/// The same as a descriptor.
struct OpenedDescriptor {
    FileDescriptor fd;
    SendCall call;
    int error = 0;
};

/// Begins to connect a socket of `type` (SOCK_STREAM, SOCK_DGRAM) to `server`, from `source` (port
/// chosen by the kernel with the peer in mind) or, where that is none, from the host's own address.
OpenedDescriptor open_socket(int type, const Clock& clock, const Endpoint& server,
                             const IpAddress& source);

inline bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

} // namespace reprise::querier
