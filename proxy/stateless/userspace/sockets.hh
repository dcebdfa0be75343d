#pragma once
// The front's sockets: raw ones toward the clients, UDP ones toward the server.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/fd.hh"
#include "proxy/stateless/userspace/pending.hh"

#include <array>
#include <optional>
#include <span>

namespace reprise::proxy::stateless {

/// Sends whole IP packets by the host's routing, whatever their source.
class PacketSockets {
public:
    /// Throws SystemError, for example without the right to.
    PacketSockets();

    /// False, with errno, where the kernel does not take it. Waits for nothing.
    [[nodiscard]] bool send(Bytes packet, const IpAddress& to) const;

private:
    FileDescriptor v4_;
    FileDescriptor v6_; ///< not valid where the host has no IPv6
};

/// Asks from kSockets ports of each family, which the kernel chooses.
class ServerSockets {
public:
    struct Answer {
        unsigned socket = 0; ///< below kSockets
        Endpoint from;
        size_t size = 0;
    };

    ServerSockets();

    [[nodiscard]] bool ask(unsigned socket, const Endpoint& server, Bytes message) const;

    /// All of them, for poll.
    [[nodiscard]] std::span<const FileDescriptor> all() const { return sockets_; }

    /// The next datagram of the descriptor number `index` in all(), if one waits.
    [[nodiscard]] std::optional<Answer> receive(size_t index, std::span<std::uint8_t> out) const;

private:
    std::array<FileDescriptor, 2 * size_t{kSockets}> sockets_; ///< IPv4 first
};

} // namespace reprise::proxy::stateless
