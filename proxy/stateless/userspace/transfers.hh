#pragma once
// The relayed connections and their sockets toward the server.

#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "proxy/stateless/common/counters.hh"
#include "proxy/stateless/userspace/segment.hh"
#include "proxy/stateless/userspace/transfer.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace reprise::proxy::stateless {

class Transfers {
public:
    static constexpr size_t kMost = 64; ///< at once: 12 MB

    /// `epoll`: gets the sockets, with themselves as data. `counters` must outlive this.
    Transfers(int epoll, Transfer::Send send, Counters& counters);

    /// Relays a connection from this segment on; false where there are kMost, or no socket.
    bool open(const Segment& segment, std::uint16_t mss, Nanoseconds now);

    /// Whether the segment belongs to one; it is dealt with then.
    bool take(const Segment& segment, Nanoseconds now);

    /// Something waits at a socket.
    void ready(int fd, Nanoseconds now);

    /// Sends what is due.
    void tick(Nanoseconds now);

    [[nodiscard]] std::optional<Nanoseconds> next_due() const;

private:
    struct Relay {
        Transfer transfer;
        FileDescriptor socket; ///< not valid once the server has ended
        bool finished_sending = false;
        std::uint32_t interest = 0;
    };

    using Relays = std::map<Connection, Relay>;

    Relays::iterator drive(Relays::iterator relay, Nanoseconds now);
    bool write(Relay& relay);
    bool read(Relay& relay);
    void watch(Relay& relay) const;

    int epoll_;
    Transfer::Send send_;
    Counters& counters_;
    Relays relays_;
};

} // namespace reprise::proxy::stateless
