#include "querier/testing/servers.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "querier/testing/messages.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr int kLookEveryMs = 20;

FileDescriptor bound(const Endpoint& endpoint, int type) {
    sockaddr_storage address{};
    const socklen_t size = endpoint.to_sockaddr(address);
    FileDescriptor fd(check(::socket(address.ss_family, type | SOCK_CLOEXEC, 0), "socket"));
    const int on = type == SOCK_STREAM ? 1 : 0;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const int buffer = 4 << 20;
    if (type == SOCK_DGRAM) {
        setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    }
    check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), "bind");
    return fd;
}

} // namespace

Message framed(const Message& message) {
    Message out(message.size() + 2);
    out[0] = static_cast<std::uint8_t>(message.size() >> 8U);
    out[1] = static_cast<std::uint8_t>(message.size());
    std::ranges::copy(message, out.begin() + 2);
    return out;
}

UdpServer::UdpServer(const std::string& endpoint, Answer answer)
    : own_(Endpoint::parse(endpoint).value_or(Endpoint{})), answer_(std::move(answer)) {
    sockets_[0] = bound(own_, SOCK_DGRAM);
    thread_ = std::thread([this] { serve(); });
}

UdpServer::UdpServer(Each each, const std::string& endpoint)
    : UdpServer(endpoint, [each = std::move(each)](const std::vector<Seen>& seen) {
          std::vector<Say> all;
          for (Message& message : each(seen.back().query)) {
              all.push_back({.message = std::move(message)});
          }
          return all;
      }) {}

UdpServer::~UdpServer() {
    done_ = true;
    thread_.join();
}

UdpServer::Answer UdpServer::echo(Nanoseconds after) {
    return [after](const std::vector<Seen>& seen) {
        return std::vector<Say>{{.message = make_reply(seen.back().query), .after = after}};
    };
}

UdpServer::Answer UdpServer::silence() {
    return [](const std::vector<Seen>&) { return std::vector<Say>{}; };
}

std::vector<Seen> UdpServer::seen() const {
    const std::scoped_lock lock(mutex_);
    return seen_;
}

size_t UdpServer::count() const {
    const std::scoped_lock lock(mutex_);
    return seen_.size();
}

void UdpServer::serve() {
    while (!done_) {
        const Nanoseconds left =
            waiting_.empty() ? kSecond : waiting_.begin()->first - SteadyClock::now();
        pollfd look{.fd = sockets_[0].get(), .events = POLLIN, .revents = 0};
        ::poll(&look, 1,
               static_cast<int>(std::clamp<Nanoseconds>(left / kMillisecond, 0, kLookEveryMs)));
        if (look.revents != 0) {
            take();
        }
        say_due();
    }
}

void UdpServer::take() {
    std::array<std::uint8_t, 65536> buffer{};
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const ssize_t got = ::recvfrom(sockets_[0].get(), buffer.data(), buffer.size(), 0,
                                   reinterpret_cast<sockaddr*>(&peer), &size);
    if (got < 0) {
        return;
    }
    const std::scoped_lock lock(mutex_);
    seen_.push_back(
        {.peer = Endpoint::from_sockaddr(peer), .query = {buffer.begin(), buffer.begin() + got}});
    for (Say& say : answer_(seen_)) {
        const Nanoseconds when = SteadyClock::now() + say.after;
        waiting_.emplace(when, Due{.say = std::move(say), .peer = seen_.back().peer});
    }
    most_open_ = std::max<size_t>(most_open_, waiting_.size());
}

int UdpServer::socket_of(From from) {
    FileDescriptor& socket = sockets_.at(static_cast<size_t>(from));
    if (!socket.valid()) {
        Endpoint other = own_;
        if (from == From::kOtherPort) {
            ++other.port;
        } else {
            other.address = IpAddress::parse("127.0.0.9").value_or(IpAddress{});
        }
        socket = bound(other, SOCK_DGRAM);
    }
    return socket.get();
}

void UdpServer::say_due() {
    while (!waiting_.empty() && waiting_.begin()->first <= SteadyClock::now()) {
        const Due due = std::move(waiting_.extract(waiting_.begin()).mapped());
        sockaddr_storage peer{};
        const socklen_t size = due.peer.to_sockaddr(peer);
        ::sendto(socket_of(due.say.from), due.say.message.data(), due.say.message.size(), 0,
                 reinterpret_cast<const sockaddr*>(&peer), size);
    }
}

TcpServer::TcpServer(Decide decide)
    : listener_(bound(Endpoint::parse(kServer).value_or(Endpoint{}), SOCK_STREAM)),
      decide_(std::move(decide)) {
    check(::listen(listener_.get(), 128), "listen");
    thread_ = std::thread([this] { serve(); });
}

TcpServer::~TcpServer() {
    done_ = true;
    thread_.join();
}

void TcpServer::serve() {
    while (!done_) {
        std::vector<pollfd> waiting{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
        for (const Client& client : clients_) {
            waiting.push_back({.fd = client.fd.get(), .events = POLLIN, .revents = 0});
        }
        ::poll(waiting.data(), waiting.size(), kLookEveryMs);
        for (size_t i = clients_.size(); i-- > 0;) {
            if (waiting[i + 1].revents != 0 && !serve_client(clients_[i])) {
                clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
            }
        }
        if (waiting[0].revents != 0) {
            accept_one();
        }
    }
}

std::vector<Endpoint> TcpServer::peers() const {
    const std::scoped_lock lock(mutex_);
    return peers_;
}

void TcpServer::accept_one() {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    FileDescriptor fd(
        ::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC));
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fd.valid()) {
        const std::scoped_lock lock(mutex_);
        peers_.push_back(Endpoint::from_sockaddr(peer));
        clients_.push_back(
            {.fd = std::move(fd), .number = ++connections_, .queries = 0, .pending = {}});
    }
}

bool TcpServer::serve_client(Client& client) {
    std::array<std::uint8_t, 4096> buffer{};
    const ssize_t got = ::recv(client.fd.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
        return false;
    }
    client.pending.insert(client.pending.end(), buffer.begin(), buffer.begin() + got);
    while (client.pending.size() >= 2) {
        const size_t size = (size_t{client.pending[0]} << 8U) | client.pending[1];
        if (client.pending.size() < size + 2) {
            return true;
        }
        const Message query(client.pending.begin() + 2,
                            client.pending.begin() + 2 + static_cast<std::ptrdiff_t>(size));
        client.pending.erase(client.pending.begin(),
                             client.pending.begin() + 2 + static_cast<std::ptrdiff_t>(size));
        if (!carry_out(client, decide_(client.number, client.queries++, query))) {
            return false;
        }
    }
    return true;
}

bool TcpServer::carry_out(Client& client, const Act& act) {
    for (const Message& part : act.send) {
        ::send(client.fd.get(), part.data(), part.size(), MSG_NOSIGNAL);
    }
    if (act.reset) {
        const linger now{.l_onoff = 1, .l_linger = 0};
        setsockopt(client.fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    return !act.close && !act.reset;
}

} // namespace reprise::querier::testing
