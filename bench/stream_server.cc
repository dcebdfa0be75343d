#include "bench/stream_server.hh"

#include "bench/stream_counters.hh"
#include "bench/stream_link.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <span>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::bench {
namespace {

constexpr std::size_t kMostMessage = 65535;
constexpr std::size_t kHeader = 12;
constexpr std::uint8_t kQr = 0x80;
constexpr std::uint8_t kAa = 0x04;
constexpr int kBacklog = std::numeric_limits<std::int32_t>::max(); // the kernel cuts it: somaxconn
constexpr int kAcceptsATurn = 64;
constexpr std::size_t kEventsATurn = 256;

sockaddr_storage any_address(int family, std::uint16_t port, socklen_t& size) {
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET) {
        reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
        size = sizeof(sockaddr_in);
    } else {
        reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
        size = sizeof(sockaddr_in6);
    }
    return address;
}

/// The last 32 bits of an address.
std::uint32_t tail_of(const sockaddr_storage& address) {
    std::uint32_t tail = 0;
    if (address.ss_family == AF_INET) {
        std::memcpy(&tail, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, sizeof tail);
    } else {
        const auto& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
        std::memcpy(&tail, &six.s6_addr[sizeof six - sizeof tail], sizeof tail);
    }
    return ntohl(tail);
}

void watch(int epoll, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

void set_on(int fd, int level, int option) {
    const int on = 1;
    check(setsockopt(fd, level, option, &on, sizeof on), "setsockopt");
}

} // namespace

std::optional<std::size_t> answer_in_place(std::span<std::uint8_t> bytes, std::size_t& queries) {
    std::size_t place = 0;
    for (queries = 0; bytes.size() - place >= 2; ++queries) {
        const auto size = static_cast<std::size_t>(bytes[place] << 8U | bytes[place + 1]);
        if (size < kHeader) {
            return std::nullopt;
        }
        if (bytes.size() - place < 2 + size) {
            break;
        }
        std::uint8_t& flags = bytes[place + 4];
        if ((flags & kQr) != 0) {
            return std::nullopt;
        }
        flags |= kQr | kAa;
        place += 2 + size;
    }
    return place;
}

StreamServer::StreamServer(const StreamServerOptions& options, StreamCounters& counters,
                           SharedCounters& shared)
    : options_(options), counters_(counters), shared_(shared),
      epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      connections_(raise_descriptor_limit()), buffer_(2 * (2 + kMostMessage)) {
    listen_on(AF_INET);
    listen_on(AF_INET6);
}

void StreamServer::listen_on(int family) {
    FileDescriptor fd(
        check(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket"));
    set_on(fd.get(), SOL_SOCKET, SO_REUSEADDR);
    set_on(fd.get(), SOL_SOCKET, SO_REUSEPORT);
    set_on(fd.get(), IPPROTO_TCP, TCP_NODELAY); // accepted sockets inherit it
    if (family == AF_INET6) {
        set_on(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY);
    }
    socklen_t size = 0;
    const sockaddr_storage address = any_address(family, options_.port, size);
    check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), "bind");
    check(::listen(fd.get(), kBacklog), "listen");
    watch(epoll_.get(), fd.get(), EPOLLIN);
    listeners_.push_back(std::move(fd));
}

// The loop

void StreamServer::run() {
    while (true) {
        take_turn();
    }
}

void StreamServer::take_turn() {
    std::array<epoll_event, kEventsATurn> events{};
    const int count = epoll_wait(epoll_.get(), events.data(), kEventsATurn, pause_ms());
    if (count < 0 && errno != EINTR) {
        throw SystemError("epoll_wait");
    }
    now_ = SteadyClock::now();
    for (int i = 0; i < count; ++i) {
        on_event(events.at(static_cast<std::size_t>(i)).data.fd,
                 events.at(static_cast<std::size_t>(i)).events);
    }
    send_due();
    close_idle();
}

/// Until the next answer or idle connection is due, -1: for ever.
int StreamServer::pause_ms() const {
    if (held_.empty() && by_age_.empty()) {
        return -1;
    }
    Nanoseconds due = std::numeric_limits<Nanoseconds>::max();
    if (!held_.empty()) {
        due = held_.front().due;
    }
    if (!by_age_.empty()) {
        const auto& oldest = connections_[static_cast<std::size_t>(by_age_.front())];
        due = std::min(due, oldest->active + options_.idle_timeout);
    }
    return static_cast<int>(
        std::max<Nanoseconds>(0, (due - SteadyClock::now() + kMillisecond - 1) / kMillisecond));
}

void StreamServer::on_event(int fd, std::uint32_t events) {
    const auto& connection = connections_[static_cast<std::size_t>(fd)];
    if (!connection) {
        if (std::ranges::any_of(listeners_, [fd](const auto& one) { return one.get() == fd; })) {
            accept_all(fd);
        }
        return;
    }
    if ((events & EPOLLOUT) != 0 && !connection->unsent.empty()) {
        flush(*connection);
    }
    if (connection && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        read_all(*connection, (events & ~(EPOLLIN | EPOLLOUT)) != 0);
    }
}

// Connections

void StreamServer::accept_all(int listener) {
    for (int i = 0; i < kAcceptsATurn && accept_one(listener); ++i) {
    }
}

bool StreamServer::accept_one(int listener) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    FileDescriptor fd(::accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
        if (errno == EMFILE || errno == ENFILE) {
            throw Error("no descriptor left for another connection; give more --processes");
        }
        return false;
    }
    // The answer carries the acknowledgement; where there is none it is late, as a busy server's.
    const int off = 0;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
    const int number = fd.get();
    auto& place = connections_[static_cast<std::size_t>(number)];
    place = std::make_unique<Connection>(Connection{
        .link = Link(std::move(fd), options_.tls, options_.early_data), .serial = ++serial_});
    if (options_.idle_timeout > 0) {
        place->active = now_;
        place->age = by_age_.insert(by_age_.end(), number);
    }
    watch(epoll_.get(), number, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    shared_.saw_source(tail_of(peer));
    count(counters_.connections);
    counters_.open.up();
    shared_.open.up();
    return true;
}

void StreamServer::close(Connection& connection, Counter& because) {
    count(because);
    counters_.open.down();
    shared_.open.down();
    if (options_.idle_timeout > 0) {
        by_age_.erase(connection.age);
    }
    connections_[static_cast<std::size_t>(connection.link.fd())].reset();
}

void StreamServer::close_idle() {
    while (!by_age_.empty()) {
        Connection& oldest = *connections_[static_cast<std::size_t>(by_age_.front())];
        if (oldest.active + options_.idle_timeout > now_) {
            return;
        }
        oldest.link.shut();
        close(oldest, counters_.closed_idle);
    }
}

void StreamServer::count_handshake(Connection& connection) {
    Link::Handshake handshake{};
    if (connection.link.take_handshake(handshake)) {
        count(counters_.handshakes);
        count(counters_.resumed, handshake.resumed ? 1 : 0);
        count(counters_.early_data, handshake.early_data ? 1 : 0);
    }
}

// Queries and answers

/// Events come on changes only, so all that is there must be read. A read that leaves room took
/// everything, except that the end itself may lie behind it.
void StreamServer::read_all(Connection& connection, bool to_the_end) {
    const auto place = static_cast<std::size_t>(connection.link.fd());
    if (options_.idle_timeout > 0) {
        connection.active = now_;
        by_age_.splice(by_age_.end(), by_age_, connection.age);
    }
    bool more = true;
    while (more) {
        const Link::Result result = read_once(connection, more);
        if (!connections_[place]) {
            return; // closed while its answer was sent
        }
        if (result == Link::Result::kLater) {
            return;
        }
        if (result != Link::Result::kDone) {
            const bool ended = result == Link::Result::kEnded;
            close(connection, ended ? counters_.closed_by_client : counters_.failed);
            return;
        }
        more = more || to_the_end || connection.link.is_tls();
    }
}

Link::Result StreamServer::read_once(Connection& connection, bool& more) {
    const std::size_t begun = connection.begun.size();
    std::ranges::copy(connection.begun, buffer_.begin());
    const auto space = std::span(buffer_).subspan(begun);
    std::size_t got = 0;
    const Link::Result result = connection.link.read(space, got);
    count_handshake(connection); // before the answer: who has that may end us
    if (result != Link::Result::kDone) {
        return result;
    }
    more = got == space.size();
    return answer(connection, begun + got) ? Link::Result::kDone : Link::Result::kFailed;
}

/// Answers what is whole of the first `held` bytes of the buffer, keeps the rest.
bool StreamServer::answer(Connection& connection, std::size_t held) {
    const auto bytes = std::span(buffer_).first(held);
    std::size_t queries = 0;
    const auto whole = answer_in_place(bytes, queries);
    if (!whole) {
        return false;
    }
    connection.begun.assign(bytes.begin() + static_cast<std::ptrdiff_t>(*whole), bytes.end());
    if (*whole == 0) {
        return true;
    }
    count(counters_.queries, queries);
    count(counters_.query_bytes, *whole - 2 * queries);
    count(counters_.reads);
    if (options_.delay > 0) {
        held_.push_back(
            {.due = now_ + options_.delay,
             .fd = connection.link.fd(),
             .serial = connection.serial,
             .bytes = {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(*whole)}});
    } else {
        send(connection, bytes.first(*whole));
    }
    return true;
}

void StreamServer::send(Connection& connection, std::span<const std::uint8_t> bytes) {
    if (!connection.unsent.empty()) {
        connection.unsent.insert(connection.unsent.end(), bytes.begin(), bytes.end());
        return;
    }
    std::size_t put = 0;
    Link::Result result = Link::Result::kDone;
    while (!bytes.empty() && result == Link::Result::kDone) {
        result = connection.link.write(bytes, put);
        bytes = bytes.subspan(result == Link::Result::kDone ? put : 0);
    }
    if (result == Link::Result::kLater) {
        connection.unsent.assign(bytes.begin(), bytes.end());
    } else if (result != Link::Result::kDone) {
        close(connection, counters_.failed);
    }
}

void StreamServer::flush(Connection& connection) {
    const std::vector<std::uint8_t> bytes = std::exchange(connection.unsent, {});
    send(connection, bytes);
}

void StreamServer::send_due() {
    while (!held_.empty() && held_.front().due <= now_) {
        const Held one = std::move(held_.front());
        held_.pop_front();
        const auto& connection = connections_[static_cast<std::size_t>(one.fd)];
        if (connection && connection->serial == one.serial) {
            send(*connection, one.bytes);
        }
    }
}

} // namespace reprise::bench
