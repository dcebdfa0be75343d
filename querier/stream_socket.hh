#pragma once
// The system calls of a TCP connection.

#include "core/address.hh"
#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/fd.hh"
#include "querier/transport.hh"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>

namespace reprise::querier {

/// A connection in the making.
struct OpenedStream {
    FileDescriptor fd;
    SendCall call;         ///< connect(), which sends the SYN
    int error = 0;         ///< errno; 0 = the SYN is on its way
    bool not_ours = false; ///< `source` is not an address of this host
};

/// Begins to connect to `server`, from `source` (port chosen by the kernel with the peer in mind)
/// or from the host's own address.
OpenedStream open_stream(const Endpoint& server, const std::optional<IpAddress>& source,
                         bool kernel_stamps);

/// The pending error of a socket.
int socket_error(int fd);

/// What one read brought.
struct StreamRead {
    std::span<std::uint8_t> bytes;
    Nanoseconds stamp = 0; ///< realtime of the last segment's arrival; 0 = unknown
    int error = 0;         ///< errno; 0 with no bytes = the peer closed its side
};

StreamRead read_stream(int fd, std::span<std::uint8_t> buffer);

/// The peer's kernel has acknowledged nothing for so long, although it was asked again and again.
bool is_unacknowledged(int fd, Nanoseconds for_time);

/// Acknowledges now what was read. A server that leaves Nagle's algorithm on holds its next answer
/// until the last one is acknowledged, which the kernel delays by 40 ms.
void acknowledge_now(int fd);

/// Sends small segments at once.
void disable_nagle(int fd);

inline bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

} // namespace reprise::querier
