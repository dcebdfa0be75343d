#include "mutator/synth/tcp_flow.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr Nanoseconds kServerDelay = 20 * kMicrosecond;
constexpr Nanoseconds kPacketGap = 1 * kMicrosecond;

Nanoseconds draw_round_trip(Random& random) {
    return static_cast<Nanoseconds>(portable_power(150, random.unit()) * 1e6);
}

} // namespace

void PacketQueue::put(Nanoseconds time, const trace::TcpPacket& segment) {
    std::vector<std::uint8_t> packet;
    trace::build_tcp(packet, segment);
    heap_.push({time, order_++, std::move(packet)});
}

TcpFlow::TcpFlow(Nanoseconds time, const Endpoint& client, const Endpoint& server, Random& random,
                 SegmentSink& segments)
    : client_(client), server_(server), round_trip_(draw_round_trip(random)),
      client_next_(static_cast<std::uint32_t>(random.bits())),
      server_next_(static_cast<std::uint32_t>(random.bits())) {
    from_client(time, trace::kTcpSyn, {}, segments);
    from_server(time + kServerDelay, trace::kTcpSyn | trace::kTcpAck, segments);
    last_ = time + kServerDelay + round_trip_;
    from_client(last_, trace::kTcpAck, {}, segments);
}

void TcpFlow::send(Nanoseconds time, Bytes message, SegmentSink& segments) {
    last_ = std::max(time, last_ + kPacketGap);
    payload_.clear();
    append16(payload_, message.size());
    payload_.insert(payload_.end(), message.begin(), message.end());
    from_client(last_, trace::kTcpPush | trace::kTcpAck, payload_, segments);
    from_server(last_ + kServerDelay, trace::kTcpAck, segments);
}

Nanoseconds TcpFlow::close(Nanoseconds time, SegmentSink& segments) {
    const Nanoseconds fin = std::max(time, last_ + kServerDelay + round_trip_);
    from_client(fin, trace::kTcpFin | trace::kTcpAck, {}, segments);
    from_server(fin + kServerDelay, trace::kTcpFin | trace::kTcpAck, segments);
    const Nanoseconds end = fin + kServerDelay + round_trip_;
    from_client(end, trace::kTcpAck, {}, segments);
    return end;
}

void TcpFlow::from_client(Nanoseconds time, std::uint8_t flags, Bytes payload,
                          SegmentSink& segments) {
    const bool acknowledges = (flags & trace::kTcpAck) != 0;
    segments.put(time,
                 {client_, server_, client_next_, acknowledges ? server_next_ : 0, flags, payload});
    client_next_ += static_cast<std::uint32_t>(payload.size());
    client_next_ += (flags & (trace::kTcpSyn | trace::kTcpFin)) != 0 ? 1U : 0U;
}

void TcpFlow::from_server(Nanoseconds time, std::uint8_t flags, SegmentSink& segments) {
    segments.put(time, {server_, client_, server_next_, client_next_, flags, {}});
    server_next_ += (flags & (trace::kTcpSyn | trace::kTcpFin)) != 0 ? 1U : 0U;
}

} // namespace reprise::mutator
