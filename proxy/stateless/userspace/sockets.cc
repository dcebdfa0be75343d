#include "proxy/stateless/userspace/sockets.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "proxy/stateless/userspace/pending.hh"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <netinet/in.h>
#include <optional>
#include <span>
#include <sys/socket.h>

namespace reprise::proxy::stateless {

namespace {

constexpr int kBuffer = 4 << 20; // bytes; a burst of answers while this process does not run

/// Not valid where the host has no such family.
FileDescriptor open_socket(int family, int type, int protocol) {
    FileDescriptor fd(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
    if (!fd.valid() && errno != EAFNOSUPPORT) {
        if (errno == EPERM) {
            throw Error("--front reference: raw sockets are not permitted; run as root");
        }
        throw SystemError("open a socket");
    }
    if (fd.valid()) {
        static_cast<void>(
            setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kBuffer, sizeof kBuffer));
        static_cast<void>(
            setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBuffer, sizeof kBuffer));
    }
    return fd;
}

bool send_to(const FileDescriptor& fd, Bytes bytes, const Endpoint& to) {
    sockaddr_storage storage{};
    const socklen_t length = to.to_sockaddr(storage);
    return sendto(fd.get(), bytes.data(), bytes.size(), 0,
                  reinterpret_cast<const sockaddr*>(&storage), length) >= 0;
}

} // namespace

PacketSockets::PacketSockets()
    : v4_(open_socket(AF_INET, SOCK_RAW, IPPROTO_RAW)),
      v6_(open_socket(AF_INET6, SOCK_RAW, IPPROTO_RAW)) {}

bool PacketSockets::send(Bytes packet, const IpAddress& to) const {
    return send_to(to.is_v6() ? v6_ : v4_, packet, {.address = to, .port = 0});
}

ServerSockets::ServerSockets() {
    for (size_t i = 0; i < sockets_.size(); ++i) {
        const int family = i < kSockets ? AF_INET : AF_INET6;
        sockets_[i] = open_socket(family, SOCK_DGRAM, 0);
        if (sockets_[i].valid()) {
            sockaddr_storage any{};
            any.ss_family = static_cast<sa_family_t>(family);
            const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
            check(bind(sockets_[i].get(), reinterpret_cast<const sockaddr*>(&any), size),
                  "bind a UDP socket");
        }
    }
}

bool ServerSockets::ask(unsigned socket, const Endpoint& server, Bytes message) const {
    return send_to(sockets_[socket + (server.address.is_v6() ? kSockets : 0)], message, server);
}

std::optional<ServerSockets::Answer> ServerSockets::receive(size_t index,
                                                            std::span<std::uint8_t> out) const {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    const ssize_t got = recvfrom(sockets_[index].get(), out.data(), out.size(), 0,
                                 reinterpret_cast<sockaddr*>(&from), &length);
    if (got < 0) {
        return std::nullopt;
    }
    return Answer{.socket = static_cast<unsigned>(index % kSockets),
                  .from = Endpoint::from_sockaddr(from),
                  .size = static_cast<size_t>(got)};
}

} // namespace reprise::proxy::stateless
