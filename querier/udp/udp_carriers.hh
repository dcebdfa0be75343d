#pragma once
// UDP by sockets: the source modes "ports", "addresses" and "mapped".

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "core/wire/query.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/poller.hh"
#include "querier/results/results.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/udp/udp_socket.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unordered_map>
#include <vector>

namespace reprise::querier {

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
    const Clock& clock_;
    Resources& resources_;
    PendingQueries& queries_;
    Servers servers_;
    Statistics& statistics_;
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
    const Clock& clock_;
    PendingQueries& queries_;
    Statistics& statistics_;
    SourceOf source_;
    std::uint8_t number_;
    std::array<std::unique_ptr<Family>, 2> families_; ///< IPv4, IPv6
    ReceiveBatch in_;
};

} // namespace reprise::querier
