#pragma once
// What the UDP transports over sockets have in common.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "querier/sockets/transport.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

namespace reprise::querier {

/// Payload of the largest IPv4 datagram; IPv6 carries 20 bytes more, which no DNS server takes.
inline constexpr size_t kLargestDatagram = 65507;

/// A datagram socket with receive stamps, drop counts and a buffer of `receive_buffer` bytes where
/// the kernel allows it. On failure `error` is errno's value.
FileDescriptor udp_socket(int family, int receive_buffer, int& error);

/// An empty send with these flags looks up its route and its neighbor, and no packet leaves: bit 4
/// is the kernel's MSG_PROBE, which the C library has under another name.
inline constexpr int kSendNothing = MSG_CONFIRM | MSG_PROXY | MSG_NOSIGNAL;

/// Sets an integer option; false where the kernel refuses.
bool set_option(int fd, int level, int name, int value);

/// No descriptor or port left.
bool out_of_room(int error);

/// No buffer now, as opposed to never.
bool no_buffer(int error);

/// An error that came by ICMP and is reported on a later call.
bool is_icmp(int error);

/// What the kernel says of a send that failed.
SendResult refusal(int error);

/// Datagrams that the kernel dropped on one socket, as it counts them from the socket's opening on.
class SocketDrops {
public:
    /// Those that are new in the kernel's count. A datagram brings the count of the moment when it
    /// was queued, so that an older one may come later: then nothing is new.
    std::uint32_t advance(std::uint32_t total) {
        const std::uint32_t more = total - seen_;
        if (more > std::numeric_limits<std::uint32_t>::max() / 2) {
            return 0;
        }
        seen_ = total;
        return more;
    }

    /// A last look at a socket that is about to be closed: no datagram tells of what was dropped
    /// after the last one that was queued.
    std::uint32_t last_look(int fd);

private:
    std::uint32_t seen_ = 0;
};

/// What came with a datagram besides its bytes.
struct Ancillary {
    Nanoseconds stamp = 0;       ///< kernel's, CLOCK_REALTIME; 0 = none
    std::uint32_t overflows = 0; ///< datagrams the kernel dropped on this socket so far
    bool has_overflows = false;
    IpAddress local; ///< address it was sent to, where asked for
};

Ancillary read_ancillary(const msghdr& message);

/// Buffers of a batch of received datagrams.
class ReceiveBatch {
public:
    static constexpr size_t kSize = 32;

    /// `peers`: whether it is to be known who sent a datagram.
    explicit ReceiveBatch(bool peers);

    /// recvmmsg without waiting; the count, or -1 with errno.
    int receive(int fd);

    [[nodiscard]] std::span<std::uint8_t> bytes(size_t index);

    [[nodiscard]] const msghdr& message(size_t index) const { return messages_[index].msg_hdr; }

    [[nodiscard]] const sockaddr_storage& peer(size_t index) const { return peers_[index]; }

private:
    struct alignas(cmsghdr) Control {
        std::uint8_t bytes[192];
    };

    bool with_peers_;
    std::vector<std::uint8_t> buffers_;
    std::vector<Control> controls_;
    std::vector<sockaddr_storage> peers_;
    std::vector<iovec> vectors_;
    std::vector<mmsghdr> messages_;
};

} // namespace reprise::querier
