#pragma once
// UDP by sockets: the source modes "ports", "addresses" and "mapped".

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "core/wire/query.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"
#include "querier/results/results.hh"
#include "querier/schedule/pending_queries.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::querier {

// Datagram sockets: opening, sending and receiving by batches.

/// Payload of the largest IPv4 datagram; IPv6 carries 20 bytes more, which no DNS server takes.
inline constexpr size_t kLargestDatagram = 65507;

/// A datagram socket with receive stamps, drop counts and a buffer of `receive_buffer` bytes where
/// the kernel allows it. On failure `error` is errno's value.
FileDescriptor udp_socket(int family, int receive_buffer, int& error);

/// An error that came by ICMP and is reported on a later call.
bool is_icmp(int error);

/// Forbids IPv4 packets in fragments, or allows them. Packets that may not be fragmented need no
/// identification, whose choice costs a twentieth of a send where every packet has another source.
void may_fragment(int fd, bool may);

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
    void refuse(int error) { refuse(0, std::exchange(count_, 0), error); }

private:
    int call(int fd, size_t first);
    /// The first ones of those from `first` on; how many are settled. `error`: 0 where they left.
    size_t send_some(int fd, size_t first, Nanoseconds& now, int& error);
    void refuse(size_t first, size_t count, int error);

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

    /// Hands over what waits at a socket (on_reply), and counts what the kernel dropped.
    /// `owner_of(Ancillary, sender)` says whose a datagram is. How many there were, or -1 with
    /// errno.
    template <typename OwnerOf> int take(int fd, SocketDrops& drops, const OwnerOf& owner_of) {
        const int count = receive(fd);
        for (size_t i = 0; static_cast<int>(i) < count; ++i) {
            const Ancillary with = read_ancillary(messages_[i].msg_hdr);
            if (with.has_overflows) {
                parts_.statistics.receive_overflows += drops.advance(with.overflows);
            }
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

// The carriers.

/// Mode "ports": one connected socket a source, so that the kernel keeps the sources apart by port
/// and hands us ICMP errors and only the server's packets.
class PortsCarrier final : public Carrier {
public:
    PortsCarrier(Poller& poller, const CarrierWish& wish, const CarrierParts& parts);

    /// Opens the source's socket.
    void prepare(const Query& query) override;
    void rehearse(std::uint32_t pending) override;
    /// The source's socket is opened where needed.
    SendResult submit(std::uint32_t pending) override;
    void flush() override;
    bool handle(const EventTag& tag, std::uint32_t events) override;
    void release(std::uint32_t pending) override;
    bool evict() override;
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
    /// kStaged where it is open.
    SendResult open(FileDescriptor& fd, std::uint8_t family);
    std::uint32_t adopt(FileDescriptor fd, std::uint32_t source);

    Poller& poller_;
    CarrierParts parts_;
    const Clock& clock_;
    Servers servers_;
    std::uint8_t number_;
    std::vector<Socket> sockets_;
    std::vector<std::uint32_t> free_;
    IndexList<&Socket::idle> idle_; ///< least recently used first
    std::unordered_map<std::uint32_t, std::uint32_t> by_source_;
    std::uint64_t last_owner_ = 0;
    std::vector<Staged> staged_;
    SendBatch out_; ///< of one socket
    ReceiveBatch in_;
};

/// Modes "addresses" and "mapped": one socket a family for all sources; each query names its source
/// address (IP_PKTINFO). The addresses are local ones by a route of type local (AnyIP), or
/// IP_TRANSPARENT lets us use them; answers come back to the same socket and say which address they
/// are for. 100,000 sources need no more memory or descriptors here than ten.
class AddressesCarrier final : public Carrier {
public:
    /// Throws SystemError where the sockets cannot be opened.
    AddressesCarrier(Poller& poller, const CarrierWish& wish, const CarrierParts& parts);

    void rehearse(std::uint32_t pending) override;
    SendResult submit(std::uint32_t pending) override;
    void flush() override;
    bool handle(const EventTag& tag, std::uint32_t events) override;
    void count_drops() override;

private:
    struct alignas(cmsghdr) Control {
        std::uint8_t bytes[CMSG_SPACE(sizeof(in6_pktinfo))];
    };

    /// Everything of one address family.
    struct Family {
        explicit Family(const CarrierParts& parts) : out(parts, false) {}

        /// Where a message goes, and from which address.
        void direct(msghdr& header, Control& control, const IpAddress& source);

        FileDescriptor fd;
        std::uint16_t port = 0; ///< ours
        SocketDrops drops;
        sockaddr_storage server{};
        socklen_t server_size = 0;
        SendBatch out;
        std::array<Control, kMostStaged> controls{}; ///< of the messages in `out`
    };

    void open(Family& family, const Endpoint& server);
    void drain_errors(const Family& family);

    [[nodiscard]] static size_t place_of(const PendingQuery& pending) {
        return pending.family() == 6 ? 1 : 0;
    }

    Poller& poller_;
    CarrierParts parts_;
    const Clock& clock_;
    SourceOf source_;
    std::uint8_t number_;
    std::array<std::unique_ptr<Family>, 2> families_; ///< IPv4, IPv6
    ReceiveBatch in_;
};

} // namespace reprise::querier
