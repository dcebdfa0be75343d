#include "querier/udp/udp_carriers.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/wire/query.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/carrier/socket.hh"
#include "querier/results/results.hh"
#include "querier/schedule/pending_queries.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

constexpr int kPortReceiveBuffer = 4 << 20;
/// All sources share it: 25,000 answers of ordinary size.
constexpr int kSharedReceiveBuffer = 32 << 20;
constexpr unsigned kMostErrors = 64;
/// An empty send with these flags looks up its route and its neighbor, and no packet leaves: bit 4
/// is the kernel's MSG_PROBE, which the C library has under another name.
constexpr int kSendNothing = MSG_CONFIRM | MSG_PROXY | MSG_NOSIGNAL;

/// No descriptor or port left.
bool out_of_room(int error) {
    return error == EMFILE || error == ENFILE || error == EAGAIN || error == EADDRINUSE;
}

template <typename Info>
void put_info(msghdr& header, void* control, int level, int type, const Info& info) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof info);
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = level;
    part->cmsg_type = type;
    part->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(part), &info, sizeof info);
}

/// Mode "ports": one connected socket a source, so that the kernel keeps the sources apart by port
/// and hands us ICMP errors and only the server's packets.
class PortsCarrier final : public Carrier {
public:
    PortsCarrier(const CarrierWish& wish, const CarrierParts& parts)
        : parts_(parts), clock_(parts.network.clock()), servers_(wish.servers),
          number_(wish.number), out_(parts, true), in_(parts, false) {
        staged_.reserve(kMostStaged);
    }

    void prepare(const Query& query) override {
        SendResult result = SendResult::kStaged;
        socket_for(query.source_id, query.source.address.family, result);
    }

    void rehearse(std::uint32_t index) override {
        const PendingQuery& pending = parts_.queries[index];
        SendResult result = SendResult::kStaged;
        const std::uint32_t place = socket_for(pending.record.source, pending.family(), result);
        if (place != kNone && sockets_[place].in_flight == 0) {
            ::send(sockets_[place].fd.get(), nullptr, 0, kSendNothing);
        }
    }

    SendResult submit(std::uint32_t index) override {
        PendingQuery& pending = parts_.queries[index];
        if (pending.record.query_size > kLargestDatagram) {
            return SendResult::kOversize;
        }
        SendResult result = SendResult::kStaged;
        const std::uint32_t place = socket_for(pending.record.source, pending.family(), result);
        if (place == kNone) {
            return result;
        }
        Socket& socket = sockets_[place];
        pending.owner = socket.owner;
        pending.place = place;
        if (socket.in_flight++ == 0) {
            idle_.remove(sockets_, place);
        }
        staged_.push_back({.place = place,
                           .pending = index,
                           .order = static_cast<std::uint32_t>(staged_.size())});
        return SendResult::kStaged;
    }

    void flush() override {
        if (staged_.size() > 1) {
            // One system call for what one socket has to send; a source's order stays.
            std::ranges::sort(staged_, {},
                              [](const Staged& one) { return std::pair(one.place, one.order); });
        }
        bool memory = true;
        Nanoseconds now = clock_.now();
        for (auto one = staged_.begin(); one != staged_.end();) {
            const std::uint32_t place = one->place;
            for (; one != staged_.end() && one->place == place; ++one) {
                out_.add(one->pending);
            }
            if (memory) {
                memory = out_.send(sockets_[place].fd.get(), now);
            } else {
                out_.refuse(ENOBUFS);
            }
        }
        staged_.clear();
    }

    bool handle(const EventTag& tag, std::uint32_t /*events*/) override {
        Socket& socket = sockets_[tag.place];
        if (socket.generation != tag.generation || !socket.fd.valid()) {
            return true;
        }
        const auto take = [&] {
            return in_.take(socket.fd.get(),
                            [&](const auto&, const auto&) { return socket.owner; });
        };
        int count = take();
        for (; count < 0 && is_icmp(errno); count = take()) {
            ++parts_.statistics.unreachable; // the query it belongs to times out like any other
        }
        return count < static_cast<int>(ReceiveBatch::kSize);
    }

    void release(std::uint32_t pending) override {
        const std::uint32_t place = parts_.queries[pending].place;
        if (--sockets_[place].in_flight == 0) {
            idle_.push_back(sockets_, place);
        }
    }

    bool evict() override {
        const std::uint32_t place = idle_.front();
        if (place == kNone) {
            return false;
        }
        Socket& socket = sockets_[place];
        idle_.remove(sockets_, place);
        by_source_.erase(socket.source);
        parts_.statistics.receive_overflows += dropped_on(socket.fd.get());
        socket.fd.reset();
        parts_.resources.give_back_descriptor();
        free_.push_back(place);
        ++parts_.statistics.sockets_evicted;
        return true;
    }

    void count_drops() override {
        for (const Socket& socket : sockets_) {
            if (socket.fd.valid()) {
                parts_.statistics.receive_overflows += dropped_on(socket.fd.get());
            }
        }
    }

private:
    struct Socket {
        FileDescriptor fd;
        std::uint32_t source = 0;
        std::uint16_t generation = 0; ///< of this place in sockets_
        Owner owner = 0;
        std::uint32_t in_flight = 0; ///< queries staged or sent
        Links idle;
    };

    struct Staged {
        std::uint32_t place = 0;
        std::uint32_t pending = 0;
        std::uint32_t order = 0;
    };

    /// Place of the source's socket, which is opened where needed; or kNone with the reason in
    /// `result`.
    std::uint32_t socket_for(std::uint32_t source, std::uint8_t family, SendResult& result) {
        if (const auto known = by_source_.find(source); known != by_source_.end()) {
            return known->second;
        }
        const auto& server = servers_.of(family);
        if (!server || !parts_.resources.take_descriptor()) {
            result = server ? SendResult::kNoRoom : SendResult::kFailed;
            return kNone;
        }
        OpenedDescriptor opened = open_socket(SOCK_DGRAM, clock_, *server, {});
        if (opened.error != 0) {
            parts_.resources.give_back_descriptor();
            result = out_of_room(opened.error) ? SendResult::kNoRoom : SendResult::kFailed;
            return kNone;
        }
        ready_for_datagrams(opened.fd.get(), kPortReceiveBuffer);
        const std::uint32_t place = take_place(sockets_, free_);
        Socket& socket = sockets_[place];
        const auto generation = static_cast<std::uint16_t>(socket.generation + 1);
        parts_.network.watch(opened.fd.get(), EPOLLIN,
                             {.kind = EventKind::kCarrier,
                              .carrier = number_,
                              .generation = generation,
                              .place = place});
        socket = {.fd = std::move(opened.fd),
                  .source = source,
                  .generation = generation,
                  .owner = owner_of((++last_owner_ << 8U) | number_, kOwnerSocket),
                  .in_flight = 0,
                  .idle = {}};
        idle_.push_back(sockets_, place);
        by_source_[source] = place;
        return place;
    }

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
    AddressesCarrier(const CarrierWish& wish, const CarrierParts& parts)
        : parts_(parts), clock_(parts.network.clock()), options_(wish.options),
          number_(wish.number), in_(parts, true) {
        for (const std::uint8_t family : {std::uint8_t{4}, std::uint8_t{6}}) {
            if (const auto& server = wish.servers.of(family); server) {
                parts.resources.take_descriptor();
                auto& one = families_[family == 6 ? 1 : 0] = std::make_unique<Family>(parts);
                open(*one, *server);
            }
        }
    }

    void rehearse(std::uint32_t index) override {
        const PendingQuery& pending = parts_.queries[index];
        const auto source = options_.local_address(pending.source.address, pending.record.source);
        Family* const family = families_[place_of(pending)].get();
        if (family != nullptr && source) {
            msghdr header{};
            iovec nothing{};
            header.msg_iov = &nothing;
            header.msg_iovlen = 1;
            Control control{};
            family->direct(header, control, *source);
            ::sendmsg(family->fd.get(), &header, kSendNothing);
        }
    }

    SendResult submit(std::uint32_t index) override {
        PendingQuery& pending = parts_.queries[index];
        const size_t place = place_of(pending);
        if (!families_[place]) {
            return SendResult::kFailed;
        }
        if (pending.record.query_size > kLargestDatagram) {
            return SendResult::kOversize;
        }
        Family& family = *families_[place];
        const auto source = options_.local_address(pending.source.address, pending.record.source);
        if (!source) {
            return SendResult::kNoAddress;
        }
        pending.owner = owner_of({.address = *source, .port = number_});
        Control& control = family.controls[family.out.size()];
        family.direct(family.out.add(index), control, *source);
        return SendResult::kStaged;
    }

    void flush() override {
        for (auto& family : families_) {
            if (family && family->out.size() > 0) {
                Nanoseconds now = clock_.now();
                family->out.send(family->fd.get(), now);
            }
        }
    }

    bool handle(const EventTag& tag, std::uint32_t /*events*/) override {
        Family& family = *families_[tag.place & 1U];
        const Endpoint server = Endpoint::from_sockaddr(family.server);
        // Anybody may send to these addresses; only the server's words count.
        const auto owner = [&](const Ancillary& with, const sockaddr_storage& sender) {
            return Endpoint::from_sockaddr(sender) == server
                       ? owner_of({.address = with.local, .port = number_})
                       : Owner{0};
        };
        int count = in_.take(family.fd.get(), owner);
        if (count < 0) {
            drain_errors(family);
            count = in_.take(family.fd.get(), owner);
        }
        return count < 0 ? would_block(errno) : count < static_cast<int>(ReceiveBatch::kSize);
    }

    void count_drops() override {
        for (const auto& family : families_) {
            parts_.statistics.receive_overflows += family ? dropped_on(family->fd.get()) : 0U;
        }
    }

private:
    struct alignas(cmsghdr) Control {
        std::uint8_t bytes[CMSG_SPACE(sizeof(in6_pktinfo))];
    };

    /// Everything of one address family.
    struct Family {
        explicit Family(const CarrierParts& parts) : out(parts, false) {}

        /// Where a message goes, and from which address.
        void direct(msghdr& header, Control& control, const IpAddress& source) {
            header.msg_name = &server;
            header.msg_namelen = server_size;
            if (source.is_v4()) {
                in_pktinfo info{};
                std::memcpy(&info.ipi_spec_dst, source.bytes.data(), sizeof info.ipi_spec_dst);
                put_info(header, &control, IPPROTO_IP, IP_PKTINFO, info);
            } else {
                in6_pktinfo info{};
                std::memcpy(&info.ipi6_addr, source.bytes.data(), sizeof info.ipi6_addr);
                put_info(header, &control, IPPROTO_IPV6, IPV6_PKTINFO, info);
            }
        }

        FileDescriptor fd;
        sockaddr_storage server{};
        socklen_t server_size = 0;
        SendBatch out;
        std::array<Control, kMostStaged> controls{}; ///< of the messages in `out`
    };

    void open(Family& family, const Endpoint& server) {
        family.server_size = server.to_sockaddr(family.server);
        const int fd =
            check(::socket(family.server.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                  "socket for source addresses");
        family.fd = FileDescriptor(fd);
        ready_for_datagrams(fd, kSharedReceiveBuffer);
        const bool v6 = server.address.is_v6();
        const int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
        set_option(fd, level, v6 ? IPV6_RECVPKTINFO : IP_PKTINFO, 1);
        set_option(fd, level, v6 ? IPV6_RECVERR : IP_RECVERR, 1);
        // For hosts without a local route of the sources; needs CAP_NET_ADMIN.
        set_option(fd, level, v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT, 1);
        if (v6) {
            set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        } else {
            may_fragment(fd, false);
        }
        sockaddr_storage any{};
        any.ss_family = family.server.ss_family;
        check(::bind(fd, reinterpret_cast<const sockaddr*>(&any), family.server_size), "bind");
        parts_.network.watch(
            fd, EPOLLIN, {.kind = EventKind::kCarrier, .carrier = number_, .place = v6 ? 1U : 0U});
    }

    /// ICMP errors wait in a queue of their own and keep the socket ready until they are taken.
    void drain_errors(const Family& family) {
        for (unsigned n = 0; n < kMostErrors; ++n) {
            std::uint8_t byte = 0;
            Ancillary with;
            if (receive(family.fd.get(), {&byte, 1}, MSG_ERRQUEUE | MSG_DONTWAIT, with) < 0) {
                return;
            }
            // The query it belongs to times out like any other.
            parts_.statistics.unreachable += with.icmp ? 1U : 0U;
        }
    }

    [[nodiscard]] static size_t place_of(const PendingQuery& pending) {
        return pending.family() == 6 ? 1 : 0;
    }

    CarrierParts parts_;
    const Clock& clock_;
    const ReplayOptions& options_;
    std::uint8_t number_;
    std::array<std::unique_ptr<Family>, 2> families_; ///< IPv4, IPv6
    ReceiveBatch in_;
};

} // namespace

std::unique_ptr<Carrier> ports_carrier(const CarrierWish& wish, const CarrierParts& parts) {
    return std::make_unique<PortsCarrier>(wish, parts);
}

std::unique_ptr<Carrier> addresses_carrier(const CarrierWish& wish, const CarrierParts& parts) {
    return std::make_unique<AddressesCarrier>(wish, parts);
}

} // namespace reprise::querier
