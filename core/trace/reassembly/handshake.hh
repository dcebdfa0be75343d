#pragma once
// Times of TCP handshakes as captured: what the round trip to either end took.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/trace/reassembly/packet.hh"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::trace {

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

    void see_syn(const TcpSegment& segment, size_t direction, Nanoseconds now);
    void see_syn_ack(const TcpSegment& segment, size_t direction, Nanoseconds now);

    State state_ = State::kNothing;
    std::uint8_t client_ = 0;
    std::uint32_t sequence_ = 0; ///< of the last packet seen of the handshake
    Nanoseconds syn_ = 0;
    Nanoseconds syn_ack_ = 0;
};

} // namespace reprise::trace
