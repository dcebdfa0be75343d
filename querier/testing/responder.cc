#include "querier/testing/responder.hh"

#include "core/address.hh"
#include "core/error.hh"
#include "core/fd.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr int kLookEveryMs = 20;

FileDescriptor bound(int type) {
    sockaddr_storage address{};
    const socklen_t size =
        Endpoint::parse("127.0.0.1:5300").value_or(Endpoint{}).to_sockaddr(address);
    FileDescriptor fd(check(::socket(AF_INET, type | SOCK_CLOEXEC, 0), "socket"));
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), "bind port 5300");
    return fd;
}

bool readable(int fd) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, kLookEveryMs) > 0;
}

} // namespace

Message framed(const Message& message) {
    Message out(message.size() + 2);
    out[0] = static_cast<std::uint8_t>(message.size() >> 8U);
    out[1] = static_cast<std::uint8_t>(message.size());
    std::ranges::copy(message, out.begin() + 2);
    return out;
}

UdpResponder::UdpResponder(Answer answer)
    : socket_(bound(SOCK_DGRAM)), answer_(std::move(answer)), thread_([this] { serve(); }) {}

UdpResponder::~UdpResponder() {
    done_ = true;
    thread_.join();
}

void UdpResponder::serve() {
    while (!done_) {
        if (!readable(socket_.get())) {
            continue;
        }
        std::array<std::uint8_t, 4096> buffer{};
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        const ssize_t got = ::recvfrom(socket_.get(), buffer.data(), buffer.size(), 0,
                                       reinterpret_cast<sockaddr*>(&peer), &size);
        if (got < 0) {
            continue;
        }
        for (const Message& message : answer_({buffer.data(), static_cast<size_t>(got)})) {
            ::sendto(socket_.get(), message.data(), message.size(), 0,
                     reinterpret_cast<const sockaddr*>(&peer), size);
        }
    }
}

TcpResponder::TcpResponder(Decide decide)
    : listener_(bound(SOCK_STREAM)), decide_(std::move(decide)) {
    check(::listen(listener_.get(), 128), "listen");
    thread_ = std::thread([this] { serve(); });
}

TcpResponder::~TcpResponder() {
    done_ = true;
    thread_.join();
}

void TcpResponder::serve() {
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

std::vector<Endpoint> TcpResponder::peers() const {
    const std::scoped_lock lock(mutex_);
    return peers_;
}

void TcpResponder::accept_one() {
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

bool TcpResponder::serve_client(Client& client) {
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

bool TcpResponder::carry_out(Client& client, const Act& act) {
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
