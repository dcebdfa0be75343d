#pragma once
// The TCP connections of a trace: finds the stream of each segment, numbers connections, bounds
// their memory.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/stream.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

namespace reprise::trace {

// Times of TCP handshakes as captured: what the round trip to either end took.

/// Capture times of a handshake's three packets. From `syn` to `syn_ack` goes the way from the
/// capture point to the server and back, from `syn_ack` to `ack` the way to the client and back.
struct TcpHandshake {
    Endpoint client;
    Endpoint server;
    Nanoseconds syn = 0;
    Nanoseconds syn_ack = 0;
    Nanoseconds ack = 0;
};

/// Follows one connection. A handshake of which a packet was sent twice has no times: which of the
/// two was answered is not known (Karn and Partridge 1987).
class HandshakeWatch {
public:
    /// True where the segment completes the handshake; then the times stand in `out`. `direction`
    /// numbers the ends, 0 or 1.
    bool see(const TcpSegment& segment, size_t direction, Nanoseconds now, TcpHandshake& out);

    /// The end that sent the SYN.
    [[nodiscard]] size_t client() const { return client_; }

private:
    enum class State : std::uint8_t { kNothing, kSyn, kSynAck, kOver };

    State state_ = State::kNothing;
    std::uint8_t client_ = 0;
    std::uint32_t sequence_ = 0; ///< of the last packet seen of the handshake
    Nanoseconds syn_ = 0;
    Nanoseconds syn_ack_ = 0;
};

class ConnectionTable {
public:
    /// Borrows both; they must outlive the table.
    ConnectionTable(const ReaderOptions& options, Tally& tally)
        : options_(&options), streams_{.found = {}, .tally = &tally} {}

    /// Takes a segment; what it completes, in either direction, is appended to `out`. They
    /// borrow from the table until the next call of add() or finish(). What a hole held up for long
    /// has the time at which that is given up: its own would look like a clock that was set back.
    void add(const IpPacket& ip, const TcpSegment& segment, Nanoseconds now,
             std::vector<Query>& out);

    /// Ends all connections as the end of the trace does.
    void finish(std::vector<Query>& out);

private:
    struct Direction {
        Stream stream;
        bool asked = false; ///< one of the messages yielded was a query
        bool fin = false;
        Nanoseconds latest = 0; ///< time of the last message yielded
    };

    /// The first FIN or RST of a connection.
    struct Close {
        bool seen = false;
        bool told = false;
        bool final = false;    ///< no bytes before it are waited for
        size_t direction = 0;  ///< who sent it
        std::uint32_t end = 0; ///< sequence number behind the last byte
        Nanoseconds time = 0;
    };

    struct Connection {
        Ends ends;
        std::uint64_t id = 0;
        Nanoseconds last = 0;
        std::array<Direction, 2> directions; ///< [i] is sent by ends[i]
        bool closed = false;
        Close close;
        HandshakeWatch handshake;
    };

    using List = std::list<Connection>;

    /// A found message that is not yet shown, because the stream's buffer may still move.
    struct Place {
        Connection* connection = nullptr;
        size_t direction = 0;
        Stream::Found found;
    };

    Connection* find(const Ends& ends, size_t direction, const TcpSegment& segment);
    Connection& open(const Ends& ends, const TcpSegment& segment);
    void touch(Connection& connection, size_t direction, const TcpSegment& segment);
    void feed(Connection& connection, size_t direction, const TcpSegment& segment);
    void acknowledge(Connection& connection, size_t direction, const TcpSegment& segment);
    void retire(List::iterator it);
    void expire();
    void make_room(const Connection& keep);
    void note(Connection& connection, size_t direction);
    void show(std::vector<Query>& out);
    void note_close(Connection& connection, size_t direction, const TcpSegment& segment) const;
    [[nodiscard]] bool client_closed(const Connection& connection) const;
    void tell_handshake(Connection& connection, size_t direction, const TcpSegment& segment) const;
    void tell_close(Connection& connection, std::vector<Query>& out) const;

    const ReaderOptions* options_;
    List open_;    ///< least recently used first
    List closed_;  ///< both ends closed or reset; kept a while for late retransmissions
    List retired_; ///< out of the index, alive until their messages were read
    std::unordered_map<Ends, List::iterator, EndsHash> index_;
    size_t memory_ = 0;
    Nanoseconds now_ = 0; ///< of the last segment
    std::uint64_t last_id_ = 0;
    Stream::Output streams_; ///< of the streams, before note()
    std::vector<Place> places_;
};

} // namespace reprise::trace
