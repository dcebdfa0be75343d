#include "core/trace/reassembly/handshake.hh"

#include "core/base/clock.hh"
#include "core/trace/reassembly/packet.hh"

#include <cstddef>
#include <cstdint>

namespace reprise::trace {

void HandshakeWatch::see_syn(const TcpSegment& segment, size_t direction, Nanoseconds now) {
    if (state_ != State::kNothing) {
        state_ = State::kOver;
        return;
    }
    state_ = State::kSyn;
    client_ = static_cast<std::uint8_t>(direction);
    sequence_ = segment.sequence;
    syn_ = now;
}

void HandshakeWatch::see_syn_ack(const TcpSegment& segment, size_t direction, Nanoseconds now) {
    const bool answers =
        state_ == State::kSyn && direction != client_ && segment.acknowledgement == sequence_ + 1;
    state_ = answers ? State::kSynAck : State::kOver;
    sequence_ = segment.sequence;
    syn_ack_ = now;
}

bool HandshakeWatch::see(const TcpSegment& segment, size_t direction, Nanoseconds now,
                         TcpHandshake& out) {
    if (state_ == State::kOver) {
        return false;
    }
    if (segment.syn) {
        segment.ack ? see_syn_ack(segment, direction, now) : see_syn(segment, direction, now);
        return false;
    }
    const bool completes = state_ == State::kSynAck && direction == client_ && segment.ack &&
                           !segment.rst && segment.acknowledgement == sequence_ + 1;
    if (completes) {
        out.syn = syn_;
        out.syn_ack = syn_ack_;
        out.ack = now;
    }
    // A connection whose beginning is not in the capture never has a handshake.
    if (completes || segment.rst || state_ == State::kNothing) {
        state_ = State::kOver;
    }
    return completes;
}

} // namespace reprise::trace
