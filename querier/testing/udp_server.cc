#include "querier/testing/udp_server.hh"

#include "core/address.hh"
#include "core/clock.hh"
#include "core/error.hh"
#include "core/fd.hh"
#include "querier/testing/messages.hh"
#include "querier/testing/responder.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr int kServeEveryMs = 20;

FileDescriptor bound(const Endpoint& endpoint) {
    sockaddr_storage address{};
    const socklen_t size = endpoint.to_sockaddr(address);
    FileDescriptor fd(check(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket"));
    const int buffer = 4 << 20;
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), "bind");
    return fd;
}

} // namespace

UdpServer::UdpServer(const std::string& endpoint, Answer answer) : answer_(std::move(answer)) {
    const Endpoint own = Endpoint::parse(endpoint).value_or(Endpoint{});
    Endpoint port = own;
    ++port.port;
    sockets_[0] = bound(own);
    sockets_[1] = bound(port);
    if (own.address.is_v4()) {
        Endpoint address = Endpoint::parse("127.0.0.9:0").value_or(Endpoint{});
        address.port = own.port;
        sockets_[2] = bound(address);
    }
    thread_ = std::thread([this] { serve(); });
}

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

void UdpServer::serve() {
    while (!done_) {
        const Nanoseconds left =
            waiting_.empty() ? kSecond : waiting_.begin()->first - SteadyClock::now();
        pollfd look{.fd = sockets_[0].get(), .events = POLLIN, .revents = 0};
        ::poll(&look, 1,
               static_cast<int>(std::clamp<Nanoseconds>(left / kMillisecond, 0, kServeEveryMs)));
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

void UdpServer::say_due() {
    while (!waiting_.empty() && waiting_.begin()->first <= SteadyClock::now()) {
        const Due due = std::move(waiting_.extract(waiting_.begin()).mapped());
        sockaddr_storage peer{};
        const socklen_t size = due.peer.to_sockaddr(peer);
        ::sendto(sockets_[static_cast<size_t>(due.say.from)].get(), due.say.message.data(),
                 due.say.message.size(), 0, reinterpret_cast<const sockaddr*>(&peer), size);
    }
}

} // namespace reprise::querier::testing
