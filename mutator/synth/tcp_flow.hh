#pragma once
// Packets of a minimal TCP connection that carries DNS queries, as seen in front of the server.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"

#include <cstdint>
#include <queue>
#include <vector>

namespace reprise::mutator {

/// Takes the segments of connections, not in order of time.
class SegmentSink {
public:
    SegmentSink() = default;
    virtual ~SegmentSink() = default;
    SegmentSink(const SegmentSink&) = delete;
    SegmentSink& operator=(const SegmentSink&) = delete;

    virtual void put(Nanoseconds time, const trace::TcpPacket& segment) = 0;
};

/// Packets to come, given out in order of time; equal times in the order they were put.
class PacketQueue : public SegmentSink {
public:
    void put(Nanoseconds time, const trace::TcpPacket& segment) override;

    [[nodiscard]] bool empty() const { return heap_.empty(); }

    [[nodiscard]] Nanoseconds next_time() const { return heap_.top().time; }

    [[nodiscard]] Bytes next_packet() const { return heap_.top().packet; }

    void pop() { heap_.pop(); }

private:
    struct Entry {
        Nanoseconds time = 0;
        std::uint64_t order = 0;
        std::vector<std::uint8_t> packet;

        bool operator<(const Entry& other) const { // the earliest is on top
            return time != other.time ? time > other.time : order > other.order;
        }
    };

    std::priority_queue<Entry> heap_;
    std::uint64_t order_ = 0;
};

/// One connection: handshake, queries with the server's acknowledgements, and the client's orderly
/// close. The server's part comes 20 us after what it answers; the client's after a round trip of 1
/// to 150 ms (drawn, log-uniform).
class TcpFlow {
public:
    /// Puts the handshake into `segments`; the SYN is at `time`.
    TcpFlow(Nanoseconds time, const Endpoint& client, const Endpoint& server, Random& random,
            SegmentSink& segments);

    /// Puts a query, at `time` or as soon as the connection stands.
    void send(Nanoseconds time, Bytes message, SegmentSink& segments);

    /// Writes the close, at `time` or after the last query. Returns the time of the last
    /// segment.
    Nanoseconds close(Nanoseconds time, SegmentSink& segments);

    [[nodiscard]] const Endpoint& client() const { return client_; }

    /// When the last query was or will be sent.
    [[nodiscard]] Nanoseconds last_sent() const { return last_; }

private:
    void from_client(Nanoseconds time, std::uint8_t flags, Bytes payload, SegmentSink& segments);
    void from_server(Nanoseconds time, std::uint8_t flags, SegmentSink& segments);

    Endpoint client_;
    Endpoint server_;
    Nanoseconds round_trip_ = 0;
    Nanoseconds last_ = 0;
    std::uint32_t client_next_ = 0; ///< sequence number of the client's next byte
    std::uint32_t server_next_ = 0;
    std::vector<std::uint8_t> payload_;
};

} // namespace reprise::mutator
