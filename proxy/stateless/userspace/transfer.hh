#pragma once
// One connection whose bytes are relayed to a TCP connection of the front's own, and back: zone
// transfers. Pure: segments, bytes and times in and out.
//
// The client's side is a small TCP. Its sequence numbers go on where the client's connection
// stands. It sends no more than the client's window, without scaling, and no more than a
// congestion window; what is not acknowledged in time is sent again from the first missing byte
// on, by a timer that doubles, or at the third acknowledgement of the same byte. Memory is
// bounded: what the server has to say is read as room appears, and what the client sends beyond
// its bound is not acknowledged.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/userspace/segment.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace reprise::proxy::stateless {

class Transfer {
public:
    static constexpr size_t kMostToClient = 131'072;
    static constexpr size_t kMostToServer = 65'537; ///< a whole query
    static constexpr Nanoseconds kIdle = 60 * kSecond;

    using Send = std::function<void(const Reply&)>;

    /// `first`: the segment with the query, which take() is still to be given.
    Transfer(const Segment& first, std::uint16_t mss, Nanoseconds now);

    /// A segment of the client. False where it came out of order or had no room, so that the client
    /// has to send it again. A RST that is taken ends the connection.
    bool take(const Segment& segment, Nanoseconds now);

    /// Bytes of the server, at most room().
    void append(Bytes bytes);

    [[nodiscard]] size_t room() const { return kMostToClient - to_client_.size(); }

    /// The server says nothing more.
    void end() { server_ended_ = true; }

    /// What the server is to get next.
    [[nodiscard]] Bytes to_server() const { return to_server_; }

    /// So many of these bytes are with the server.
    void sent_to_server(size_t count);

    /// Whether the client says nothing more, and all is with the server.
    [[nodiscard]] bool client_ended() const { return client_ended_ && to_server_.empty(); }

    /// Sends the client what may be sent, and what must be sent again. How many segments had data.
    size_t send(Nanoseconds now, const Send& out);

    /// When send() is to be called next, where nothing else happens.
    [[nodiscard]] Nanoseconds next_due() const;

    /// Both ends are done and the client has all.
    [[nodiscard]] bool finished() const;

    /// Without progress for kIdle.
    [[nodiscard]] bool failed(Nanoseconds now) const { return now - progress_ >= kIdle; }

    /// Ends the client's connection at once.
    [[nodiscard]] Reply reset() const;

private:
    void take_acknowledgement(const Segment& segment, Nanoseconds now);
    bool take_data(const Segment& segment, Nanoseconds now);
    size_t send_data(size_t most, const Send& out);
    void go_back();
    [[nodiscard]] Reply control(std::uint32_t seq, unsigned flags) const;

    [[nodiscard]] std::uint32_t in_flight() const { return next_ - first_; }

    [[nodiscard]] bool outstanding() const {
        return !to_client_.empty() || (server_ended_ && !fin_acknowledged_);
    }

    Connection connection_;
    std::uint16_t mss_;
    std::uint32_t first_;  ///< first byte that the client has not acknowledged
    std::uint32_t next_;   ///< first byte not sent, or to be sent again
    std::uint32_t most_;   ///< first byte never sent
    std::uint32_t expect_; ///< the client's next byte
    std::uint16_t window_;
    size_t congestion_;
    std::vector<std::uint8_t> to_client_; ///< from first_ on
    std::vector<std::uint8_t> to_server_;
    Nanoseconds timer_ = 0; ///< of what is in flight; 0 where it does not run
    Nanoseconds wait_;      ///< of the timer
    Nanoseconds progress_;  ///< when either side last got further
    unsigned repeated_ = 0; ///< acknowledgements of the same byte
    bool acknowledge_ = false;
    bool server_ended_ = false;
    bool client_ended_ = false;
    bool fin_acknowledged_ = false;
};

// The relayed connections and their sockets toward the server.

class Transfers {
public:
    static constexpr size_t kMost = 64; ///< at once: 12 MB

    /// `epoll`: gets the sockets, with themselves as data. `counters` must outlive this.
    Transfers(int epoll, Transfer::Send send, StatelessCounts& counters);

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
    StatelessCounts& counters_;
    Relays relays_;
};

} // namespace reprise::proxy::stateless
