#include "mutator/synth/synth.hh"

#include "core/base/random.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "mutator/synth/clients.hh"
#include "mutator/synth/synth_options.hh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr std::uint64_t kFlushRecords = 4096;
constexpr size_t kLengthPrefix = 2;

} // namespace

SynthSink::SynthSink(const std::string& path, trace::OutputForm form)
    : capture_(form == trace::OutputForm::kPcap), encoder_(trace::make_encoder(form)), file_(path) {
    encoder_->begin(out_);
}

// Of a connection's segments only the client's queries and its FIN are in the forms that hold
// queries.
void SynthSink::segment(Nanoseconds time, std::uint64_t number, const trace::TcpPacket& segment) {
    const bool closes = (segment.flags & trace::kTcpFin) != 0;
    if (!capture_ && (segment.from.port == kDnsPort || (segment.payload.empty() && !closes))) {
        return;
    }
    Query query;
    query.time = time;
    if (capture_) {
        trace::build_tcp(packet_, segment);
        query.message = packet_;
    } else {
        query.source = segment.from;
        query.destination = segment.to;
        query.connection = number;
        query.transport = Transport::kTcp;
        query.message = segment.payload.subspan(closes ? 0 : kLengthPrefix);
    }
    waiting_.put(time, query);
}

void SynthSink::encode(Query query) {
    query.sequence = sequence_;
    sequence_ += query.is_close() ? 0U : 1U;
    encoder_->encode(query, out_);
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
    encode({.time = time, .source = from, .destination = to, .message = message});
}

void SynthSink::write_until(Nanoseconds time) {
    while (waiting_.due(time)) {
        const Query& query = waiting_.take();
        if (capture_) {
            trace::append_packet(out_, query.time, query.message);
            wrote_one();
        } else {
            encode(query);
        }
    }
}

void SynthSink::finish() {
    write_until(std::numeric_limits<Nanoseconds>::max());
    encoder_->finish(out_);
    file_.write(out_);
    file_.finish();
}

namespace {

using trace::kTcpAck;
using trace::kTcpFin;
using trace::kTcpPush;
using trace::kTcpSyn;

constexpr Nanoseconds kServerDelay = 20 * kMicrosecond;
constexpr Nanoseconds kPacketGap = 1 * kMicrosecond;

/// A connection without a query for so long is closed, whatever it still had to send.
constexpr Nanoseconds kIdleLimit = 5 * kSecond;

/// Number of trials up to the first success: at least 1, `mean` in the mean.
std::uint64_t draw_geometric(double mean, Random& random) {
    std::uint64_t count = 1;
    while (random.chance(1 - 1 / mean)) {
        ++count;
    }
    return count;
}

Nanoseconds draw_round_trip(Random& random) {
    return static_cast<Nanoseconds>(portable_power(150, random.unit()) * 1e6);
}

} // namespace

/// The packets of one connection, as seen in front of the server: handshake, queries with the
/// server's acknowledgements, and the client's orderly close. The server's part comes 20 us after
/// what it answers; the client's after a round trip of 1 to 150 ms (drawn, log-uniform).
class TcpFlow {
public:
    /// Begins connection `number` of the sink, with the SYN at `time`.
    TcpFlow(Nanoseconds time, std::uint64_t number, const Endpoint& client, const Endpoint& server,
            Random& random, SynthSink& sink)
        : sink_(&sink), number_(number), round_trip_(draw_round_trip(random)),
          tcp_{.ends = {client, server},
               .next = {static_cast<std::uint32_t>(random.bits()),
                        static_cast<std::uint32_t>(random.bits())}} {
        put(time, kClient, kTcpSyn);
        put(time + kServerDelay, kServer, kTcpSyn | kTcpAck);
        last_ = time + kServerDelay + round_trip_;
        put(last_, kClient, kTcpAck);
    }

    /// Puts a query, at `time` or as soon as the connection stands.
    void send(Nanoseconds time, Bytes message) {
        last_ = std::max(time, last_ + kPacketGap);
        payload_.clear();
        append16(payload_, message.size());
        payload_.insert(payload_.end(), message.begin(), message.end());
        put(last_, kClient, kTcpPush | kTcpAck, payload_);
        put(last_ + kServerDelay, kServer, kTcpAck);
    }

    /// Writes the close, at `time` or after the last query. Returns the time of the last segment.
    Nanoseconds close(Nanoseconds time) {
        const Nanoseconds fin = std::max(time, last_ + kServerDelay + round_trip_);
        put(fin, kClient, kTcpFin | kTcpAck);
        put(fin + kServerDelay, kServer, kTcpFin | kTcpAck);
        const Nanoseconds end = fin + kServerDelay + round_trip_;
        put(end, kClient, kTcpAck);
        return end;
    }

    [[nodiscard]] const Endpoint& client() const { return tcp_.ends[kClient]; }

    /// When the last query was or will be sent.
    [[nodiscard]] Nanoseconds last_sent() const { return last_; }

private:
    static constexpr size_t kClient = 0;
    static constexpr size_t kServer = 1;

    void put(Nanoseconds time, size_t from, unsigned flags, Bytes payload = {}) {
        sink_->segment(time, number_,
                       tcp_.segment(from, static_cast<std::uint8_t>(flags), payload));
    }

    SynthSink* sink_;
    std::uint64_t number_;
    Nanoseconds round_trip_;
    Nanoseconds last_ = 0;
    trace::TcpEnds tcp_;
    std::vector<std::uint8_t> payload_;
};

Synthesizer::Synthesizer(const SynthSettings& settings, std::vector<std::string> tlds,
                         SynthSink& sink)
    : settings_(settings), random_(settings.options.seed), clients_(settings),
      queries_(settings, std::move(tlds)), sink_(sink),
      start_(static_cast<Nanoseconds>(std::floor(settings.options.start_s)) * kSecond +
             std::llround((settings.options.start_s - std::floor(settings.options.start_s)) * 1e9)),
      arrivals_(settings.options.arrival, settings.options.rate_qps, settings.options.gap_cv) {}

Synthesizer::~Synthesizer() = default;

bool Synthesizer::step() {
    if (counts_.queries >= settings_.most_queries) {
        return false;
    }
    offset_ = arrivals_.next(random_);
    if (offset_ >= settings_.duration_ns) {
        return false;
    }
    const Nanoseconds time = start_ + std::llround(offset_);
    close_idle(time);
    sink_.write_until(time);
    if (settings_.options.tcp_share > 0 && random_.chance(settings_.options.tcp_share)) {
        send_tcp(time);
    } else {
        send_udp(time);
    }
    ++counts_.queries;
    counts_.length = time - start_;
    return true;
}

void Synthesizer::finish() {
    if (flow_) {
        close(flow_->last_sent());
    }
    sink_.finish();
}

void Synthesizer::make_message(std::uint32_t client) {
    const ClientHabit& habit = clients_.habit(client);
    counts_.junk_queries += queries_.make(client, habit, random_, message_) ? 1U : 0U;
    counts_.ipv6_queries += habit.ipv6 ? 1U : 0U;
}

void Synthesizer::send_udp(Nanoseconds time) {
    const std::uint32_t client = clients_.draw(random_);
    make_message(client);
    sink_.datagram(time, client_endpoint(client), server_for(client), message_);
}

void Synthesizer::send_tcp(Nanoseconds time) {
    TcpFlow& flow = flow_ ? *flow_ : open_connection(time);
    make_message(flow_client_);
    flow.send(time, message_);
    ++counts_.tcp_queries;
    if (--flow_left_ == 0) {
        close(time);
    }
}

TcpFlow& Synthesizer::open_connection(Nanoseconds time) {
    flow_client_ = clients_.draw(random_);
    flow_left_ = draw_geometric(settings_.options.tcp_queries, random_);
    const Endpoint client = free_endpoint(flow_client_, time);
    flow_ = std::make_unique<TcpFlow>(time, ++counts_.connections, client, server_for(flow_client_),
                                      random_, sink_);
    return *flow_;
}

void Synthesizer::close(Nanoseconds time) {
    if (flow_) {
        busy_[flow_->client()] = flow_->close(time);
        flow_.reset();
    }
}

void Synthesizer::close_idle(Nanoseconds time) {
    if (flow_ && time > flow_->last_sent() + kIdleLimit) {
        close(flow_->last_sent() + kIdleLimit);
    }
}

/// A port of the client that none of its connections uses: if the drawn one is in use, the next.
Endpoint Synthesizer::free_endpoint(std::uint32_t client, Nanoseconds time) {
    constexpr size_t kFewest = 1024;
    if (busy_.size() >= 2 * std::max(swept_, kFewest)) {
        std::erase_if(busy_, [time](const auto& one) { return one.second < time; });
        swept_ = busy_.size();
    }
    Endpoint endpoint = client_endpoint(client);
    const std::uint16_t drawn = endpoint.port;
    for (auto found = busy_.find(endpoint); found != busy_.end() && found->second >= time;
         found = busy_.find(endpoint)) {
        endpoint.port = Clients::next_port(endpoint.port);
        if (endpoint.port == drawn) {
            break; // it has no free port
        }
    }
    return endpoint;
}

Endpoint Synthesizer::client_endpoint(std::uint32_t client) {
    return {clients_.address(client), clients_.port(client, random_)};
}

const Endpoint& Synthesizer::server_for(std::uint32_t client) const {
    return clients_.habit(client).ipv6 ? settings_.server6 : settings_.server4;
}

} // namespace reprise::mutator
