#include "proxy/stateless/userspace/transfers.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "proxy/stateless/common/counters.hh"
#include "proxy/stateless/userspace/segment.hh"
#include "proxy/stateless/userspace/transfer.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace reprise::proxy::stateless {

namespace {

constexpr size_t kRead = 16'384;

/// Not valid where the connection cannot even begin.
FileDescriptor connect_to(const Endpoint& server) {
    sockaddr_storage storage{};
    const socklen_t length = server.to_sockaddr(storage);
    FileDescriptor fd(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd.valid() && connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0 &&
        errno != EINPROGRESS) {
        fd.reset();
    }
    return fd;
}

/// Of a call that may be tried again later.
bool try_later() { return errno == EAGAIN || errno == EINTR || errno == ENOTCONN; }

} // namespace

Transfers::Transfers(int epoll, Transfer::Send send, Counters& counters)
    : epoll_(epoll), send_(std::move(send)), counters_(counters) {}

bool Transfers::open(const Segment& segment, std::uint16_t mss, Nanoseconds now) {
    if (relays_.size() >= kMost) {
        return false;
    }
    FileDescriptor socket = connect_to(segment.connection.server);
    if (!socket.valid()) {
        return false;
    }
    epoll_event event{.events = EPOLLOUT, .data = {.fd = socket.get()}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, socket.get(), &event) != 0) {
        return false;
    }
    const auto relay =
        relays_
            .insert_or_assign(segment.connection, Relay{.transfer = Transfer(segment, mss, now),
                                                        .socket = std::move(socket),
                                                        .interest = EPOLLOUT})
            .first;
    relay->second.transfer.take(segment, now);
    drive(relay, now);
    return true;
}

bool Transfers::take(const Segment& segment, Nanoseconds now) {
    const auto relay = relays_.find(segment.connection);
    if (relay == relays_.end()) {
        return false;
    }
    if (segment.has(kSyn)) { // another connection from the same port
        relays_.erase(relay);
        return false;
    }
    counters_.fin += segment.has(kFin) ? 1U : 0U;
    counters_.rst += segment.has(kRst) ? 1U : 0U;
    const bool taken = relay->second.transfer.take(segment, now);
    counters_.waiting += taken ? 0U : 1U;
    if (segment.has(kRst) && taken) {
        relays_.erase(relay);
    } else {
        drive(relay, now);
    }
    return true;
}

void Transfers::ready(int fd, Nanoseconds now) {
    const auto relay = std::ranges::find_if(
        relays_, [fd](const auto& each) { return each.second.socket.get() == fd; });
    if (relay != relays_.end()) {
        drive(relay, now);
    }
}

void Transfers::tick(Nanoseconds now) {
    for (auto relay = relays_.begin(); relay != relays_.end();) {
        relay = relay->second.transfer.next_due() <= now ? drive(relay, now) : std::next(relay);
    }
}

std::optional<Nanoseconds> Transfers::next_due() const {
    std::optional<Nanoseconds> first;
    for (const auto& [connection, relay] : relays_) {
        const Nanoseconds due = relay.transfer.next_due();
        first = std::min(first.value_or(due), due);
    }
    return first;
}

/// Does what can be done for one; the next one, as this one may have ended.
Transfers::Relays::iterator Transfers::drive(Relays::iterator at, Nanoseconds now) {
    Relay& relay = at->second;
    const bool broken = !write(relay) || !read(relay);
    counters_.segments += relay.transfer.send(now, send_);
    if (broken || relay.transfer.failed(now)) {
        send_(relay.transfer.reset());
        ++counters_.reset;
        return relays_.erase(at);
    }
    if (relay.transfer.finished()) {
        return relays_.erase(at);
    }
    watch(relay);
    return std::next(at);
}

/// What the client said, and that it says nothing more. False where the server is gone.
bool Transfers::write(Relay& relay) {
    while (relay.socket.valid() && !relay.transfer.to_server().empty()) {
        const Bytes bytes = relay.transfer.to_server();
        const ssize_t sent = send(relay.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0) {
            return try_later();
        }
        relay.transfer.sent_to_server(static_cast<size_t>(sent));
    }
    if (relay.socket.valid() && relay.transfer.client_ended() &&
        !std::exchange(relay.finished_sending, true)) {
        static_cast<void>(shutdown(relay.socket.get(), SHUT_WR));
    }
    return true;
}

/// As much of the server's bytes as there is room for. False where the server is gone.
bool Transfers::read(Relay& relay) {
    std::array<std::uint8_t, kRead> buffer{};
    while (relay.socket.valid() && relay.transfer.room() != 0) {
        const size_t most = std::min(buffer.size(), relay.transfer.room());
        const ssize_t got = recv(relay.socket.get(), buffer.data(), most, 0);
        if (got < 0) {
            return try_later();
        }
        if (got == 0) {
            relay.transfer.end();
            relay.socket.reset(); // also takes it from epoll
            relay.transfer.sent_to_server(relay.transfer.to_server().size());
            break;
        }
        relay.transfer.append(Bytes(buffer).first(static_cast<size_t>(got)));
    }
    return true;
}

/// A socket of which nothing is wanted is not watched at all: epoll would tell of its end again and
/// again, asked or not.
void Transfers::watch(Relay& relay) const {
    if (!relay.socket.valid()) {
        return;
    }
    const std::uint32_t interest = (relay.transfer.room() != 0 ? EPOLLIN : 0U) |
                                   (relay.transfer.to_server().empty() ? 0U : EPOLLOUT);
    const std::uint32_t before = std::exchange(relay.interest, interest);
    if (interest != before) {
        const int change = interest == 0 ? EPOLL_CTL_DEL
                           : before == 0 ? EPOLL_CTL_ADD
                                         : EPOLL_CTL_MOD;
        epoll_event event{.events = interest, .data = {.fd = relay.socket.get()}};
        static_cast<void>(epoll_ctl(epoll_, change, relay.socket.get(), &event));
    }
}

} // namespace reprise::proxy::stateless
