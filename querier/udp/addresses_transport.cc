#include "querier/udp/addresses_transport.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "querier/network/network.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/sockets/owner.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/stamps.hh"
#include "querier/sockets/transport.hh"
#include "querier/sockets/udp_socket.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/errqueue.h>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <span>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

namespace reprise::querier {
namespace {

/// All sources share it: 25,000 answers of ordinary size.
constexpr int kReceiveBuffer = 32 << 20;
constexpr int kSendAttempts = 4;
constexpr unsigned kMostErrors = 64;

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

/// Packets that may not be fragmented need no identification, whose choice costs a twentieth of a
/// send where every packet has another source.
void may_fragment(int fd, sa_family_t family, bool may) {
    if (family == AF_INET) {
        set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, may ? IP_PMTUDISC_WANT : IP_PMTUDISC_DO);
    }
}

/// Whether a message of the error queue tells of an ICMP error. This host's own ones, e.g. of a
/// query too large for one packet, are in it as well.
bool tells_of_icmp(msghdr& header) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
         part = CMSG_NXTHDR(&header, part)) {
        if ((part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR) ||
            (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR)) {
            sock_extended_err error{};
            std::memcpy(&error, CMSG_DATA(part), sizeof error);
            return error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
        }
    }
    return false;
}

} // namespace

// Sockets

AddressesTransport::AddressesTransport(Poller& poller, const Clock& clock, const UdpWish& wish,
                                       const UdpParts& parts)
    : poller_(poller), clock_(clock), queries_(parts.queries), statistics_(parts.statistics),
      events_(parts.events), source_(wish.source), number_(wish.number) {
    for (const std::uint8_t family : {std::uint8_t{4}, std::uint8_t{6}}) {
        if (const auto& server = wish.servers.of(family); server) {
            parts.descriptors.take();
            auto& one = families_[family == 6 ? 1 : 0] = std::make_unique<Family>();
            open(*one, *server);
        }
    }
}

void AddressesTransport::open(Family& family, const Endpoint& server) {
    family.server_size = server.to_sockaddr(family.server);
    int error = 0;
    family.fd = udp_socket(family.server.ss_family, kReceiveBuffer, error);
    check(family.fd.valid() ? 0 : -1, "socket for source addresses");
    const int fd = family.fd.get();
    const bool v6 = server.address.is_v6();
    set_option(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVPKTINFO : IP_PKTINFO, 1);
    set_option(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, 1);
    // For hosts without a local route of the sources; needs CAP_NET_ADMIN.
    set_option(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT, 1);
    if (v6) {
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    may_fragment(fd, family.server.ss_family, false);
    sockaddr_storage any{};
    any.ss_family = family.server.ss_family;
    check(::bind(fd, reinterpret_cast<const sockaddr*>(&any), family.server_size), "bind");
    socklen_t size = sizeof any;
    check(::getsockname(fd, reinterpret_cast<sockaddr*>(&any), &size), "getsockname");
    family.port = Endpoint::from_sockaddr(any).port;
    for (size_t i = 0; i < kMostStaged; ++i) {
        msghdr& header = family.messages[i].msg_hdr;
        header.msg_name = &family.server;
        header.msg_namelen = family.server_size;
        header.msg_iov = &family.vectors[i];
        header.msg_iovlen = 1;
    }
    poller_.add(fd, EPOLLIN, {.kind = EventKind::kUdp, .peer = number_, .place = v6 ? 1U : 0U});
}

// Sending

void AddressesTransport::set_source(Family& family, size_t index, const IpAddress& source) {
    msghdr& header = family.messages[index].msg_hdr;
    if (source.is_v4()) {
        in_pktinfo info{};
        std::memcpy(&info.ipi_spec_dst, source.bytes.data(), sizeof info.ipi_spec_dst);
        put_info(header, &family.controls[index], IPPROTO_IP, IP_PKTINFO, info);
    } else {
        in6_pktinfo info{};
        std::memcpy(&info.ipi6_addr, source.bytes.data(), sizeof info.ipi6_addr);
        put_info(header, &family.controls[index], IPPROTO_IPV6, IPV6_PKTINFO, info);
    }
}

SendResult AddressesTransport::stage(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    const auto which = pending.family() == 6 ? 1U : 0U;
    if (!families_[which]) {
        return SendResult::kFailed;
    }
    if (pending.record.query_size > kLargestDatagram) {
        return SendResult::kOversize;
    }
    Family& family = *families_[which];
    const auto source = source_(pending);
    if (!source) {
        return SendResult::kNoAddress;
    }
    pending.owner = owner_of({.address = *source, .port = family.port});
    pending.place = which;
    const size_t at = family.staged.size();
    set_source(family, at, *source);
    family.vectors[at] = {.iov_base = const_cast<std::uint8_t*>(pending.message),
                          .iov_len = pending.record.query_size};
    family.staged.push_back(index);
    return SendResult::kDone;
}

void AddressesTransport::rehearse(std::uint32_t index) {
    const PendingQuery& pending = queries_[index];
    const auto source = source_(pending);
    Family* const family = families_[pending.family() == 6 ? 1 : 0].get();
    if (family != nullptr && source && family->staged.empty()) {
        set_source(*family, 0, *source);
        family->vectors[0] = {};
        ::sendmsg(family->fd.get(), &family->messages[0].msg_hdr, kSendNothing);
    }
}

void AddressesTransport::flush() {
    for (auto& family : families_) {
        if (family && !family->staged.empty()) {
            flush(*family);
        }
    }
}

void AddressesTransport::flush(Family& family) {
    Nanoseconds now = clock_.now();
    for (size_t first = 0; first < family.staged.size();) {
        first += send_some(family, first, now);
    }
    family.staged.clear();
}

/// Larger than the link's packets: this one only may go in fragments.
int AddressesTransport::send_in_fragments(Family& family, size_t index) {
    may_fragment(family.fd.get(), family.server.ss_family, true);
    const int sent = ::sendmmsg(family.fd.get(), &family.messages[index], 1, MSG_NOSIGNAL);
    const int error = errno;
    may_fragment(family.fd.get(), family.server.ss_family, false);
    errno = error;
    return sent;
}

size_t AddressesTransport::send_some(Family& family, size_t first, Nanoseconds& now) {
    int sent = -1;
    for (int attempt = 0; sent < 0 && attempt < kSendAttempts; ++attempt) {
        const size_t most = std::min(family.staged.size() - first, kMostInCall);
        sent = ::sendmmsg(family.fd.get(), &family.messages[first], static_cast<unsigned>(most),
                          MSG_NOSIGNAL);
        if (sent < 0 && !is_icmp(errno)) {
            break; // an ICMP error is an earlier query's: try again
        }
    }
    int error = errno;
    if (sent < 0 && error == EMSGSIZE) {
        sent = send_in_fragments(family, first);
        error = errno;
    }
    const Nanoseconds before = std::exchange(now, clock_.now());
    if (sent > 0) {
        const auto count = static_cast<size_t>(sent);
        for (size_t i = 0; i < count; ++i) {
            events_.on_sent(family.staged[first + i], {.before = before, .after = now});
        }
        return count;
    }
    if (!no_buffer(error)) {
        events_.on_refused(family.staged[first], refusal(error));
        return 1;
    }
    for (size_t i = first; i < family.staged.size(); ++i) {
        events_.on_refused(family.staged[i], SendResult::kBusy);
    }
    return family.staged.size() - first;
}

// Receiving

bool AddressesTransport::receive(const EventTag& tag, const StampClock& stamps) {
    Family& family = *families_[tag.place & 1U];
    const int count = batch_.receive(family.fd.get());
    if (count >= 0) {
        take_batch(family, static_cast<size_t>(count), stamps);
    }
    if (count < 0 || count == 0) {
        drain_errors(family);
        return false;
    }
    return count < static_cast<int>(ReceiveBatch::kSize);
}

/// ICMP errors wait in a queue of their own and keep the socket ready until they are taken.
void AddressesTransport::drain_errors(Family& family) {
    for (unsigned n = 0; n < kMostErrors; ++n) {
        std::uint8_t byte = 0;
        iovec vector{.iov_base = &byte, .iov_len = 1};
        msghdr header{};
        header.msg_iov = &vector;
        header.msg_iovlen = 1;
        alignas(cmsghdr) std::array<std::uint8_t, 512> control{};
        header.msg_control = control.data();
        header.msg_controllen = control.size();
        if (::recvmsg(family.fd.get(), &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
            return;
        }
        // The query it belongs to times out like any other.
        statistics_.unreachable += tells_of_icmp(header) ? 1U : 0U;
    }
}

void AddressesTransport::count_drops() {
    for (auto& family : families_) {
        if (family) {
            statistics_.receive_overflows += family->drops.last_look(family->fd.get());
        }
    }
}

void AddressesTransport::take_batch(Family& family, size_t count, const StampClock& stamps) {
    for (size_t i = 0; i < count; ++i) {
        const Ancillary with = read_ancillary(batch_.message(i));
        if (with.has_overflows) {
            statistics_.receive_overflows += family.drops.advance(with.overflows);
        }
        // Anybody may send to these addresses; only the server's words count.
        const bool from_server =
            Endpoint::from_sockaddr(batch_.peer(i)) == Endpoint::from_sockaddr(family.server);
        const auto bytes = batch_.bytes(i);
        const Owner owner =
            from_server ? owner_of({.address = with.local, .port = family.port}) : 0;
        events_.on_reply(
            owner, {.bytes = bytes, .size = bytes.size(), .received = stamps.convert(with.stamp)});
    }
}

} // namespace reprise::querier
