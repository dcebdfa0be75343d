#pragma once
// UDP by sockets: the source modes "ports", "addresses" and "mapped".

#include "core/base/clock.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

namespace reprise::querier {

// Datagram sockets: opening, sending and receiving by batches.

/// Payload of the largest IPv4 datagram; IPv6 carries 20 bytes more, which no DNS server takes.
inline constexpr size_t kLargestDatagram = 65507;

/// Gives a datagram socket receive stamps and a buffer of `receive_buffer` bytes, where the kernel
/// allows it.
void ready_for_datagrams(int fd, int receive_buffer);

/// An error that came by ICMP and is reported on a later call.
bool is_icmp(int error);

/// Forbids IPv4 packets in fragments, or allows them. Packets that may not be fragmented need no
/// identification, whose choice costs a twentieth of a send where every packet has another source.
void may_fragment(int fd, bool may);

/// Datagrams that the kernel dropped on a socket since it was opened.
std::uint32_t dropped_on(int fd);

/// Queries that leave by one socket, by as few system calls as tell when each of them left.
class SendBatch {
public:
    /// `connected`: the socket is; errors that came by ICMP fail its sends, and are counted.
    SendBatch(const CarrierParts& parts, bool connected);
    SendBatch(const SendBatch&) = delete;
    SendBatch& operator=(const SendBatch&) = delete;

    [[nodiscard]] size_t size() const { return count_; }

    /// One more query, of at most Carrier::kMostStaged. Its header, for a destination and ancillary
    /// data.
    msghdr& add(std::uint32_t pending);

    /// Sends them and tells what became of each (on_sent, on_refused). `now`: the time, before and
    /// after. False: the kernel has no memory, which no other socket need try.
    bool send(int fd, Nanoseconds& now);

    /// Tells that they are refused with this errno.
    void refuse(int error);

private:
    int call(int fd, size_t first);
    /// How many left of those from `first` on, or the negative errno of the first.
    int hand_over(int fd, size_t first);

    CarrierParts parts_;
    const Clock& clock_;
    bool connected_;
    size_t count_ = 0;
    std::array<std::uint32_t, Carrier::kMostStaged> pending_{};
    std::array<iovec, Carrier::kMostStaged> vectors_{};
    std::array<mmsghdr, Carrier::kMostStaged> messages_{};
};

/// Buffers of a batch of received datagrams.
class ReceiveBatch {
public:
    /// `peers`: whether it is to be known who sent a datagram.
    ReceiveBatch(const CarrierParts& parts, bool peers);

    /// Most datagrams of one call.
    static constexpr size_t kSize = 32;

    /// Hands over what waits at a socket (on_reply). `owner_of(Ancillary, sender)` says whose a
    /// datagram is. How many there were, or -1 with errno.
    template <typename OwnerOf> int take(int fd, const OwnerOf& owner_of) {
        const int count = receive(fd);
        for (size_t i = 0; static_cast<int>(i) < count; ++i) {
            const Ancillary with = read_ancillary(messages_[i].msg_hdr);
            const std::span bytes(&buffers_[i * kStride], messages_[i].msg_len);
            parts_.events.on_reply(owner_of(with, peers_[i]),
                                   {.bytes = bytes,
                                    .size = bytes.size(),
                                    .received = parts_.stamps.convert(with.stamp)});
        }
        return count;
    }

private:
    static constexpr size_t kBufferSize = 65536;
    /// Buffers a multiple of 4096 bytes apart would share the same few lines of the cache.
    static constexpr size_t kStride = kBufferSize + 192;

    struct alignas(cmsghdr) Control {
        std::uint8_t bytes[192];
    };

    /// recvmmsg without waiting; the count, or -1 with errno.
    int receive(int fd);

    CarrierParts parts_;
    bool with_peers_;
    std::vector<std::uint8_t> buffers_;
    std::vector<Control> controls_;
    std::vector<sockaddr_storage> peers_;
    std::vector<iovec> vectors_;
    std::vector<mmsghdr> messages_;
};

/// The carrier of mode "ports".
std::unique_ptr<Carrier> ports_carrier(const CarrierWish& wish, const CarrierParts& parts);

/// That of "addresses" and "mapped". Throws SystemError where the sockets cannot be opened.
std::unique_ptr<Carrier> addresses_carrier(const CarrierWish& wish, const CarrierParts& parts);

} // namespace reprise::querier
