#include "mutator/synth/synth_sink.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace reprise::mutator {
namespace {

constexpr std::uint64_t kFlushRecords = 4096;
constexpr size_t kLengthPrefix = 2;

} // namespace

SynthSink::SynthSink(const std::string& path, trace::OutputForm form)
    : capture_(form == trace::OutputForm::kPcap), encoder_(trace::make_encoder(form)), file_(path) {
    encoder_->begin(out_);
}

bool SynthSink::is_later(const Waiting& a, const Waiting& b) {
    return a.query.time != b.query.time ? a.query.time > b.query.time : a.order > b.order;
}

// Of a connection's segments only the client's queries and its FIN are in the forms that hold
// queries.
void SynthSink::segment(Nanoseconds time, std::uint64_t number, const trace::TcpPacket& segment) {
    const bool closes = (segment.flags & trace::kTcpFin) != 0;
    if (!capture_ && (segment.from.port == kDnsPort || (segment.payload.empty() && !closes))) {
        return;
    }
    Waiting waiting;
    waiting.order = order_++;
    waiting.query.time = time;
    if (capture_) {
        trace::build_tcp(waiting.bytes, segment);
    } else {
        waiting.query.source = segment.from;
        waiting.query.destination = segment.to;
        waiting.query.connection = number;
        waiting.query.transport = Transport::kTcp;
        const Bytes message = segment.payload.subspan(closes ? 0 : kLengthPrefix);
        waiting.bytes.assign(message.begin(), message.end());
    }
    waiting_.push_back(std::move(waiting));
    std::ranges::push_heap(waiting_, is_later);
}

void SynthSink::write(const Waiting& waiting) {
    if (capture_) {
        trace::append_packet(out_, waiting.query.time, waiting.bytes);
    } else {
        Query query = waiting.query;
        query.message = waiting.bytes;
        query.sequence = sequence_;
        sequence_ += query.is_close() ? 0U : 1U;
        encoder_->encode(query, out_);
    }
    wrote_one();
}

void SynthSink::wrote_one() {
    if (++records_ % kFlushRecords == 0) {
        encoder_->flush(out_);
        file_.write(out_);
        out_.clear();
    }
}

void SynthSink::datagram(Nanoseconds time, const Endpoint& from, const Endpoint& to,
                         Bytes message) {
    Query query;
    query.sequence = sequence_++;
    query.time = time;
    query.source = from;
    query.destination = to;
    query.message = message;
    encoder_->encode(query, out_);
    wrote_one();
}

void SynthSink::write_until(Nanoseconds time) {
    while (!waiting_.empty() && waiting_.front().query.time <= time) {
        std::ranges::pop_heap(waiting_, is_later);
        write(waiting_.back());
        waiting_.pop_back();
    }
}

void SynthSink::finish() {
    write_until(std::numeric_limits<Nanoseconds>::max());
    encoder_->finish(out_);
    file_.write(out_);
    file_.finish();
}

} // namespace reprise::mutator
