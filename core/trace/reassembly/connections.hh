#pragma once
// Packets in, DNS messages out (Assembler): fragments and TCP streams are put together on the way.
// The TCP connections of a trace (ConnectionTable): finds the stream of each segment, numbers
// connections, bounds their memory.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"

#include <algorithm>
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

/// How far a sequence number is ahead of another; wrapping needs no care (RFC 9293 section 3.4).
inline std::int32_t ahead(std::uint32_t sequence, std::uint32_t of) {
    return static_cast<std::int32_t>(sequence - of);
}

/// The segments of a stream that wait behind its holes.
class HeldSegments {
public:
    struct Segment {
        std::uint32_t sequence = 0;
        Nanoseconds time = 0;
        std::vector<std::uint8_t> data;
    };

    /// Holds a copy; false where all of it is held already. `next`: the sequence number expected.
    bool add(std::uint32_t next, std::uint32_t sequence, Bytes data, Nanoseconds time);

    /// Shows them to `take` until that returns false, and drops those before.
    void release(auto&& take) {
        size_t done = 0;
        for (; done < segments_.size() && take(segments_[done]); ++done) {
            memory_ -= segments_[done].data.size() + kCost;
        }
        segments_.erase(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(done));
    }

    /// By sequence number.
    [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }

    [[nodiscard]] size_t memory() const { return memory_; }

    /// Whether there is a hole and `acknowledgement` covers all of the first.
    [[nodiscard]] bool acknowledged(std::uint32_t acknowledgement) const {
        return !segments_.empty() && ahead(acknowledgement, segments_.front().sequence) >= 0;
    }

    /// Capture time of the one that came first. Needs one.
    [[nodiscard]] Nanoseconds since() const {
        return std::ranges::min_element(segments_, {}, &Segment::time)->time;
    }

private:
    static constexpr size_t kCost = 64; ///< of a segment beyond its data

    std::vector<Segment> segments_;
    size_t memory_ = 0;
};

// One direction of a TCP connection: segments in, DNS messages out.
//
// A segment ahead of the expected one is held until the hole before it is filled. A hole is given
// up (by the owner, skip_hole()) when the peer has acknowledged beyond it, so that the capture and
// not the network lost it; when it is old, when too much is held, or when the connection ends.
// After a hole the stream goes on at the next message if its place is known from the length prefix
// before the hole; else, as at the beginning of a stream captured from its middle, at the next
// place that looks like a message.

class Stream {
public:
    /// A whole message inside the stream's buffer: good until begin() is called next.
    struct Found {
        Stream* stream = nullptr; ///< whose it is
        size_t offset = 0;
        size_t size = 0;
        Nanoseconds time = 0; ///< of the packet with the last byte missing
    };

    struct Output {
        std::vector<Found> found; ///< each call appends
        Tally* tally;
    };

    /// Forgets messages already found. Call before any of the calls below for a new packet.
    void begin();

    /// The sequence number of the first byte, from a SYN.
    void start(std::uint32_t sequence);

    /// Takes a segment's payload and finds the messages that it completes.
    void add(std::uint32_t sequence, Bytes data, Nanoseconds time, Output& out);

    /// Gives up the first hole. Needs waiting().
    void skip_hole(Output& out);

    /// Gives up every hole.
    void skip_holes(Output& out);

    /// Gives up every hole and drops what is left over, counted; for a connection that ends.
    void finish(Output& out);

    [[nodiscard]] Bytes bytes(const Found& found) const {
        return Bytes(buffer_).subspan(found.offset, found.size);
    }

    /// Whether segments are held behind a hole.
    [[nodiscard]] bool waiting() const { return !held_.segments().empty(); }

    [[nodiscard]] const HeldSegments& held() const { return held_; }

    [[nodiscard]] bool started() const { return started_; }

    /// Whether every byte before `sequence` was seen or given up.
    [[nodiscard]] bool reached(std::uint32_t sequence) const {
        return started_ && ahead(sequence, next_) <= 0;
    }

    /// Sequence number of the first byte seen or announced by a SYN.
    [[nodiscard]] std::uint32_t first_sequence() const { return first_; }

    /// Too far from what is expected to belong to this stream: the ports were used again and the
    /// SYN is not in the capture.
    [[nodiscard]] bool foreign(std::uint32_t sequence) const;

    /// Bytes of memory beyond the object itself.
    [[nodiscard]] size_t memory() const { return buffer_.capacity() + held_.memory(); }

private:
    void release(Nanoseconds now, Output& out);
    void append(Bytes data, Nanoseconds time, Output& out);
    void scan(Nanoseconds time, Output& out);
    bool search(Output& out);
    [[nodiscard]] size_t missing() const;

    [[nodiscard]] Bytes pending() const { return Bytes(buffer_).subspan(used_); }

    std::vector<std::uint8_t> buffer_; ///< contiguous bytes
    size_t used_ = 0;                  ///< bytes of buffer_ already taken as messages
    size_t discard_ = 0;               ///< coming bytes that belong to a message with a hole
    HeldSegments held_;
    std::uint32_t next_ = 0; ///< expected sequence number
    std::uint32_t first_ = 0;
    bool started_ = false;
    bool synchronized_ = false; ///< next_ less pending() is a message boundary
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
    struct Connection;

    struct Direction : Stream {
        const Connection* connection = nullptr;
        size_t number = 0;  ///< of ends and directions
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

    Connection* find(const Ends& ends, size_t direction, const TcpSegment& segment);
    Connection& open(const Ends& ends, const TcpSegment& segment);
    void touch(Connection& connection, size_t direction, const TcpSegment& segment);
    void feed(Connection& connection, size_t direction, const TcpSegment& segment);
    void acknowledge(Connection& connection, size_t direction, const TcpSegment& segment);
    void retire(List::iterator it);
    void expire();
    void make_room(const Connection& keep);
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
    Stream::Output streams_; ///< of the streams, which show() has not shown: buffers may still move
};

// What counts as DNS is what the field's tools (Wireshark's dissector) take for it: any UDP payload
// and any length-prefixed TCP message of at least 12 bytes with a DNS port at either end, whatever
// it holds. A server is asked such nonsense too, so a replay has to ask it. Messages quoted inside
// ICMP errors are not messages.

/// Pure: it neither reads files nor clocks.
class Assembler {
public:
    explicit Assembler(const ReaderOptions& options);
    Assembler(const Assembler&) = delete;
    Assembler& operator=(const Assembler&) = delete;

    /// Takes one packet. Call only when pop() yields nothing more: messages borrow from the packet
    /// and from buffers reused here.
    void feed(const Packet& packet);

    /// The trace has ended: what waits for more is given up.
    void finish();

    /// The next message, in the order in which packets completed them.
    bool pop(Query& query);

    [[nodiscard]] const Tally& tally() const { return tally_; }

private:
    bool complete(IpPacket& ip, Nanoseconds time);
    bool out_of_tunnel(IpPacket& ip, Nanoseconds time);
    void feed_tcp(const IpPacket& ip, Nanoseconds time);

    ReaderOptions options_;
    Tally tally_;
    DnsPorts ports_;
    FragmentTable fragments_;
    ConnectionTable connections_;
    std::vector<Query> ready_;
    size_t popped_ = 0;
};

} // namespace reprise::trace
