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
#include <memory>
#include <string>
#include <utility>

namespace reprise::mutator {
namespace {

constexpr std::uint64_t kFlushQueries = 4096;
constexpr size_t kLengthPrefix = 2;

} // namespace

void PacketSink::datagram(Nanoseconds time, const Endpoint& from, const Endpoint& to,
                          Bytes message) {
    trace::build_udp(packet_, from, to, message);
    writer_.write(time, packet_);
}

void PacketSink::write_until(Nanoseconds time) {
    while (!waiting_.empty() && waiting_.next_time() <= time) {
        writer_.write(waiting_.next_time(), waiting_.next_packet());
        waiting_.pop();
    }
}

void PacketSink::finish() {
    write_until(std::numeric_limits<Nanoseconds>::max());
    writer_.finish();
}

QuerySink::QuerySink(const std::string& path, std::unique_ptr<trace::QueryEncoder> encoder)
    : encoder_(std::move(encoder)), file_(path) {
    encoder_->begin(out_);
}

bool QuerySink::is_later(const Waiting& a, const Waiting& b) {
    return a.query.trace_time != b.query.trace_time ? a.query.trace_time > b.query.trace_time
                                                    : a.order > b.order;
}

// Of a connection's segments only the client's queries and its FIN are in the trace's other forms.
void QuerySink::put(Nanoseconds time, const trace::TcpPacket& segment) {
    const bool closes = (segment.flags & trace::kTcpFin) != 0;
    if (segment.from.port == kDnsPort || (segment.payload.empty() && !closes)) {
        return;
    }
    Waiting waiting;
    waiting.order = order_++;
    waiting.query.trace_time = time;
    waiting.query.source = segment.from;
    waiting.query.destination = segment.to;
    waiting.query.connection = connection_;
    waiting.query.transport = Transport::kTcp;
    if (!closes) {
        const Bytes message = segment.payload.subspan(kLengthPrefix);
        waiting.message.assign(message.begin(), message.end());
    }
    waiting_.push_back(std::move(waiting));
    std::ranges::push_heap(waiting_, is_later);
}

void QuerySink::write(Query query) {
    query.sequence = sequence_;
    sequence_ += query.is_close() ? 0U : 1U;
    encoder_->encode(query, out_);
    ++records_;
    if (++unflushed_ == kFlushQueries) {
        encoder_->flush(out_);
        file_.write(out_);
        out_.clear();
        unflushed_ = 0;
    }
}

void QuerySink::datagram(Nanoseconds time, const Endpoint& from, const Endpoint& to,
                         Bytes message) {
    Query query;
    query.trace_time = time;
    query.source = from;
    query.destination = to;
    query.message = message;
    write(query);
}

void QuerySink::write_until(Nanoseconds time) {
    while (!waiting_.empty() && waiting_.front().query.trace_time <= time) {
        std::ranges::pop_heap(waiting_, is_later);
        const Waiting next = std::move(waiting_.back());
        waiting_.pop_back();
        Query query = next.query;
        query.message = next.message;
        write(query);
    }
}

void QuerySink::finish() {
    write_until(std::numeric_limits<Nanoseconds>::max());
    encoder_->finish(out_);
    file_.write(out_);
    file_.finish();
}

} // namespace reprise::mutator
