#include "core/trace/reassembly/connections.hh"

#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace reprise::trace {

bool HandshakeWatch::see(const TcpSegment& segment, size_t direction, Nanoseconds now,
                         TcpHandshake& out) {
    if (state_ == State::kOver) {
        return false;
    }
    if (segment.syn && !segment.ack) {
        state_ = state_ == State::kNothing ? State::kSyn : State::kOver;
        client_ = static_cast<std::uint8_t>(direction);
        sequence_ = segment.sequence;
        syn_ = now;
        return false;
    }
    if (segment.syn) {
        const bool answers = state_ == State::kSyn && direction != client_ &&
                             segment.acknowledgement == sequence_ + 1;
        state_ = answers ? State::kSynAck : State::kOver;
        sequence_ = segment.sequence;
        syn_ack_ = now;
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

namespace {

/// A hole this old will not be filled: retransmission timeouts have passed several times.
constexpr Nanoseconds kHoleTimeout = 10 * kSecond;
/// Trace time a closed connection is remembered (a sender's FIN-WAIT retransmissions).
constexpr Nanoseconds kClosedTimeout = 30 * kSecond;

} // namespace

ConnectionTable::Connection& ConnectionTable::open(const Ends& ends, const TcpSegment& segment) {
    if (!segment.syn) {
        streams_.tally->add(Count::kTcpMidStream);
    }
    open_.push_back({.ends = ends,
                     .id = ++last_id_,
                     .last = now_,
                     .directions = {},
                     .close = {},
                     .handshake = {}});
    index_[ends] = std::prev(open_.end());
    Connection& opened = open_.back();
    for (size_t i = 0; i < opened.directions.size(); ++i) {
        opened.directions[i].connection = &opened;
        opened.directions[i].number = i;
    }
    return opened;
}

/// Takes a connection out of use; its last messages come out with the current packet.
void ConnectionTable::retire(List::iterator it) {
    List& from = it->closed ? closed_ : open_;
    Connection& connection = *it;
    index_.erase(connection.ends);
    retired_.splice(retired_.end(), from, it);
    for (Direction& direction : connection.directions) {
        memory_ -= direction.memory();
        direction.begin();
        direction.finish(streams_);
    }
}

/// The connection of a segment: the one known, or a new one where the ports are used again, or none
/// for what carries nothing.
ConnectionTable::Connection* ConnectionTable::find(const Ends& ends, size_t direction,
                                                   const TcpSegment& segment) {
    const auto found = index_.find(ends);
    if (found != index_.end()) {
        const Direction& known = found->second->directions[direction];
        const bool used = known.started();
        const bool again = segment.syn
                               ? used && known.first_sequence() != segment.sequence + 1
                               : known.foreign(segment.sequence) && !segment.payload.empty();
        if (!again) {
            return &*found->second;
        }
        retire(found->second);
    }
    const bool opens = segment.syn || (!segment.payload.empty() && !segment.rst);
    return opens ? &open(ends, segment) : nullptr;
}

/// Marks the connection as used now and moves it to the end of its list.
void ConnectionTable::touch(Connection& connection, size_t direction, const TcpSegment& segment) {
    connection.last = now_;
    connection.directions[direction].fin |= segment.fin;
    const auto it = index_.find(connection.ends)->second;
    List& from = connection.closed ? closed_ : open_;
    connection.closed |=
        segment.rst || (connection.directions[0].fin && connection.directions[1].fin);
    List& to = connection.closed ? closed_ : open_;
    to.splice(to.end(), from, it);
}

void ConnectionTable::feed(Connection& connection, size_t direction, const TcpSegment& segment) {
    Stream& stream = connection.directions[direction];
    const std::uint32_t first = segment.sequence + (segment.syn ? 1U : 0U);
    if (segment.syn) {
        stream.start(first);
    }
    stream.add(first, segment.payload, now_, streams_);
    const bool stale = stream.waiting() && now_ - stream.held().since() > kHoleTimeout;
    if (stale) {
        stream.skip_hole(streams_);
    }
    for (size_t i = 0; segment.rst && i < 2; ++i) {
        connection.directions[i].skip_holes(streams_);
    }
}

/// What the sender of `segment` acknowledges has arrived there: a hole before that is the
/// capture's.
void ConnectionTable::acknowledge(Connection& connection, size_t direction,
                                  const TcpSegment& segment) {
    Stream& other = connection.directions[1 - direction];
    while (segment.ack && other.held().acknowledged(segment.acknowledgement)) {
        other.skip_hole(streams_);
    }
}

void ConnectionTable::expire() {
    while (!open_.empty() && now_ - open_.front().last > options_->connection_timeout) {
        retire(open_.begin());
    }
    while (!closed_.empty() && now_ - closed_.front().last > kClosedTimeout) {
        retire(closed_.begin());
    }
}

/// Closed connections go first, then the longest unused; the one in use now stays.
void ConnectionTable::make_room(const Connection& keep) {
    const auto candidate = [&keep](const List& list) {
        return !list.empty() && &list.front() != &keep;
    };
    while (memory_ > options_->stream_bytes || index_.size() > options_->connections) {
        if (candidate(closed_)) {
            retire(closed_.begin());
        } else if (candidate(open_)) {
            streams_.tally->add(Count::kTcpEvicted);
            retire(open_.begin());
        } else {
            return;
        }
    }
}

void ConnectionTable::show(std::vector<Query>& out) {
    constexpr Nanoseconds kMostLate = kSecond / 2;
    for (const Stream::Found& found : streams_.found) {
        auto& direction = static_cast<Direction&>(*found.stream);
        const Connection& connection = *direction.connection;
        const bool late = now_ - found.time > kMostLate;
        direction.latest = late ? now_ : found.time;
        out.push_back({.time = direction.latest,
                       .source = connection.ends[direction.number],
                       .destination = connection.ends[1 - direction.number],
                       .connection = connection.id,
                       .transport = Transport::kTcp,
                       .message = direction.bytes(found)});
        direction.asked |= !out.back().is_response();
    }
    streams_.found.clear();
}

/// Who closes first is the sender of the first FIN or RST. One from far outside of the stream
/// closes nothing (RFC 5961 section 3): it is of an earlier use of the ports, or forged.
void ConnectionTable::note_close(Connection& connection, size_t direction,
                                 const TcpSegment& segment) const {
    if (connection.directions[direction].foreign(segment.sequence)) {
        return;
    }
    Close& close = connection.close;
    if (!close.seen && (segment.fin || segment.rst)) {
        const auto size = static_cast<std::uint32_t>(segment.payload.size());
        close = {.seen = true,
                 .direction = direction,
                 .end = segment.sequence + (segment.syn ? 1U : 0U) + size,
                 .time = now_};
    }
    const bool acknowledged = direction != close.direction && segment.ack &&
                              ahead(segment.acknowledgement, close.end) >= 0;
    close.final |= close.seen && (segment.rst || acknowledged);
}

/// The client is the end that asked; of two, the one without a DNS port.
bool ConnectionTable::client_closed(const Connection& connection) const {
    const size_t closer = connection.close.direction;
    const std::uint16_t port = connection.ends.at(closer).port;
    return connection.directions.at(closer).asked &&
           (!connection.directions.at(1 - closer).asked ||
            std::ranges::count(options_->ports, port) == 0);
}

/// Shows the client's close once all of its bytes were seen or are given up.
void ConnectionTable::tell_close(Connection& connection, std::vector<Query>& out) const {
    Close& close = connection.close;
    const Direction& from = connection.directions.at(close.direction);
    const bool due =
        close.seen && !close.told && !from.waiting() && (close.final || from.reached(close.end));
    if (due && client_closed(connection)) {
        close.told = true;
        out.push_back({.time = std::max(close.time, from.latest),
                       .source = connection.ends.at(close.direction),
                       .destination = connection.ends.at(1 - close.direction),
                       .connection = connection.id,
                       .transport = Transport::kTcp,
                       .message = {}});
    }
}

void ConnectionTable::tell_handshake(Connection& connection, size_t direction,
                                     const TcpSegment& segment) const {
    TcpHandshake times;
    if (connection.handshake.see(segment, direction, now_, times)) {
        const size_t client = connection.handshake.client();
        times.client = connection.ends.at(client);
        times.server = connection.ends.at(1 - client);
        options_->handshakes(times);
    }
}

void ConnectionTable::add(const IpPacket& ip, const TcpSegment& segment, Nanoseconds now,
                          std::vector<Query>& out) {
    retired_.clear();
    now_ = now;
    expire();
    const Endpoint from{.address = ip.source, .port = segment.source_port};
    const Endpoint to{.address = ip.destination, .port = segment.destination_port};
    const size_t direction = to < from ? 1 : 0;
    const Ends ends{direction == 0 ? from : to, direction == 0 ? to : from};
    Connection* connection = find(ends, direction, segment);
    if (connection != nullptr) {
        touch(*connection, direction, segment);
        for (Direction& each : connection->directions) {
            memory_ -= each.memory();
            each.begin();
        }
        acknowledge(*connection, direction, segment);
        feed(*connection, direction, segment);
        for (const Direction& each : connection->directions) {
            memory_ += each.memory();
        }
        make_room(*connection);
    }
    show(out);
    if (options_->handshakes && connection != nullptr) {
        tell_handshake(*connection, direction, segment);
    }
    if (options_->closes && connection != nullptr) {
        note_close(*connection, direction, segment);
        tell_close(*connection, out);
    }
}

void ConnectionTable::finish(std::vector<Query>& out) {
    retired_.clear();
    while (!open_.empty()) {
        retire(open_.begin());
    }
    while (!closed_.empty()) {
        retire(closed_.begin());
    }
    show(out);
}

Assembler::Assembler(const ReaderOptions& options)
    : options_(options), ports_(options.ports),
      fragments_(options.fragment_bytes, options.fragment_timeout, tally_),
      connections_(options_, tally_) {}

bool Assembler::pop(Query& query) {
    if (popped_ == ready_.size()) {
        return false;
    }
    query = ready_[popped_++];
    return true;
}

void Assembler::feed(const Packet& packet) {
    ready_.clear();
    popped_ = 0;
    IpPacket ip;
    if (!decode_counted(packet, ip, tally_) || !complete(ip, packet.time) ||
        !out_of_tunnel(ip, packet.time)) {
        return;
    }
    Query query;
    if (ip.protocol == kProtocolTcp) {
        feed_tcp(ip, packet.time);
    } else if (read_datagram(ip, packet.time, ports_, tally_, query)) {
        ready_.push_back(query);
    }
}

/// A tunnel may have been cut into fragments, and so may what is in it. One layer is opened, so
/// that no packet can make more work than that.
bool Assembler::out_of_tunnel(IpPacket& ip, Nanoseconds time) {
    const Tunnel tunnel = leave_tunnel(ip, ports_, tally_);
    if (tunnel != Tunnel::kLeft) {
        return tunnel == Tunnel::kNone;
    }
    tally_.add(Count::kTunnel);
    if (!complete(ip, time)) {
        return false;
    }
    if (in_tunnel(ip, ports_)) {
        tally_.add(Count::kTunnelUnread);
        return false;
    }
    return true;
}

/// Whether the packet is whole, or the fragment that made its datagram whole, which `ip` is then.
bool Assembler::complete(IpPacket& ip, Nanoseconds time) {
    if (!ip.fragment) {
        return true;
    }
    if (ip.cut) {
        tally_.add(Count::kCutPacket);
        return false;
    }
    if (!fragments_.add(ip, time)) {
        return false;
    }
    // Extension headers may stand behind the fragment header; a second fragment header may not.
    if (ip.source.is_v6() && (!skip_extensions(ip) || ip.fragment)) {
        tally_.add(Count::kBadPacket);
        return false;
    }
    return true;
}

void Assembler::feed_tcp(const IpPacket& ip, Nanoseconds time) {
    const auto tcp = decode_tcp(ip.payload);
    if (!tcp) {
        tally_.add(ip.cut ? Count::kCutPacket : Count::kBadPacket);
        return;
    }
    if (!ports_.either(tcp->source_port, tcp->destination_port)) {
        tally_.add(Count::kOtherPort);
        return;
    }
    if (ip.cut) { // what was captured is used; the rest is a hole in the stream
        tally_.add(Count::kCutPacket);
    }
    connections_.add(ip, *tcp, time, ready_);
}

void Assembler::finish() {
    ready_.clear();
    popped_ = 0;
    fragments_.finish();
    connections_.finish(ready_);
}

} // namespace reprise::trace
