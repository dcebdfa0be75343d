#include "mutator/synth/tcp_flow.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "mutator/synth/synth_sink.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::mutator {
namespace {

using trace::kTcpAck;
using trace::kTcpFin;
using trace::kTcpPush;
using trace::kTcpSyn;

constexpr Nanoseconds kServerDelay = 20 * kMicrosecond;
constexpr Nanoseconds kPacketGap = 1 * kMicrosecond;

Nanoseconds draw_round_trip(Random& random) {
    return static_cast<Nanoseconds>(portable_power(150, random.unit()) * 1e6);
}

} // namespace

TcpFlow::TcpFlow(Nanoseconds time, std::uint64_t number, const Endpoint& client,
                 const Endpoint& server, Random& random, SynthSink& sink)
    : sink_(&sink), number_(number), round_trip_(draw_round_trip(random)),
      tcp_{.ends = {client, server},
           .next = {static_cast<std::uint32_t>(random.bits()),
                    static_cast<std::uint32_t>(random.bits())}} {
    put(time, kClient, kTcpSyn);
    put(time + kServerDelay, kServer, kTcpSyn | kTcpAck);
    last_ = time + kServerDelay + round_trip_;
    put(last_, kClient, kTcpAck);
}

void TcpFlow::send(Nanoseconds time, Bytes message) {
    last_ = std::max(time, last_ + kPacketGap);
    payload_.clear();
    append16(payload_, message.size());
    payload_.insert(payload_.end(), message.begin(), message.end());
    put(last_, kClient, kTcpPush | kTcpAck, payload_);
    put(last_ + kServerDelay, kServer, kTcpAck);
}

Nanoseconds TcpFlow::close(Nanoseconds time) {
    const Nanoseconds fin = std::max(time, last_ + kServerDelay + round_trip_);
    put(fin, kClient, kTcpFin | kTcpAck);
    put(fin + kServerDelay, kServer, kTcpFin | kTcpAck);
    const Nanoseconds end = fin + kServerDelay + round_trip_;
    put(end, kClient, kTcpAck);
    return end;
}

void TcpFlow::put(Nanoseconds time, size_t from, unsigned flags, Bytes payload) {
    sink_->segment(time, number_, tcp_.segment(from, static_cast<std::uint8_t>(flags), payload));
}

} // namespace reprise::mutator
