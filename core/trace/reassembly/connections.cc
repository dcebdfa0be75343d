#include "core/trace/reassembly/connections.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/stream.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

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

namespace {

/// A hole this old will not be filled: retransmission timeouts have passed several times.
constexpr Nanoseconds kHoleTimeout = 10 * kSecond;
/// Trace time a closed connection is remembered (a sender's FIN-WAIT retransmissions).
constexpr Nanoseconds kClosedTimeout = 30 * kSecond;

} // namespace

size_t ConnectionTable::KeyHash::operator()(const Key& key) const noexcept {
    const std::hash<Endpoint> hash;
    return hash(key.ends[0]) * 31 + hash(key.ends[1]);
}

ConnectionTable::Connection& ConnectionTable::open(const Key& key, const TcpSegment& segment,
                                                   Nanoseconds now) {
    if (!segment.syn) {
        tally_->add(Count::kTcpMidStream);
    }
    open_.push_back({.key = key,
                     .id = ++last_id_,
                     .last = now,
                     .directions = {},
                     .close = {},
                     .handshake = {}});
    index_[key] = std::prev(open_.end());
    return open_.back();
}

/// Takes a connection out of use; its last messages come out with the current packet.
void ConnectionTable::retire(List::iterator it) {
    List& from = it->closed ? closed_ : open_;
    Connection& connection = *it;
    index_.erase(connection.key);
    retired_.splice(retired_.end(), from, it);
    for (size_t direction = 0; direction < 2; ++direction) {
        Stream& stream = connection.directions[direction].stream;
        memory_ -= stream.memory();
        stream.begin();
        stream.finish(found_, *tally_);
        note(connection, direction);
    }
}

/// Remembers what a stream found, for show().
void ConnectionTable::note(Connection& connection, size_t direction) {
    for (const Stream::Found& found : found_) {
        places_.push_back({.connection = &connection, .direction = direction, .found = found});
    }
    found_.clear();
}

/// The connection of a segment: the one known, or a new one where the ports are used again, or none
/// for what carries nothing.
ConnectionTable::Connection* ConnectionTable::find(const Key& key, size_t direction,
                                                   const TcpSegment& segment, Nanoseconds now) {
    const auto found = index_.find(key);
    if (found != index_.end()) {
        const Direction& known = found->second->directions[direction];
        const bool used = known.stream.started();
        const bool again = segment.syn
                               ? used && known.stream.first_sequence() != segment.sequence + 1
                               : known.stream.foreign(segment.sequence) && !segment.payload.empty();
        if (!again) {
            return &*found->second;
        }
        retire(found->second);
    }
    const bool opens = segment.syn || (!segment.payload.empty() && !segment.rst);
    return opens ? &open(key, segment, now) : nullptr;
}

/// Marks the connection as used now and moves it to the end of its list.
void ConnectionTable::touch(Connection& connection, const TcpSegment& segment, size_t direction,
                            Nanoseconds now) {
    connection.last = now;
    connection.directions[direction].fin |= segment.fin;
    const auto it = index_.find(connection.key)->second;
    List& from = connection.closed ? closed_ : open_;
    connection.closed |=
        segment.rst || (connection.directions[0].fin && connection.directions[1].fin);
    List& to = connection.closed ? closed_ : open_;
    to.splice(to.end(), from, it);
}

void ConnectionTable::feed(Connection& connection, size_t direction, const TcpSegment& segment,
                           Nanoseconds now) {
    Stream& stream = connection.directions[direction].stream;
    const std::uint32_t first = segment.sequence + (segment.syn ? 1U : 0U);
    if (segment.syn) {
        stream.start(first);
    }
    stream.add(first, segment.payload, now, found_, *tally_);
    const bool stale = stream.waiting() && now - stream.waiting_since() > kHoleTimeout;
    if (stale) {
        stream.skip_hole(found_, *tally_);
    }
    note(connection, direction);
    if (segment.rst) {
        give_up_holes(connection);
    }
}

void ConnectionTable::give_up_holes(Connection& connection) {
    for (size_t direction = 0; direction < 2; ++direction) {
        connection.directions[direction].stream.skip_holes(found_, *tally_);
        note(connection, direction);
    }
}

/// What the sender of `segment` acknowledges has arrived there: a hole before that is the
/// capture's.
void ConnectionTable::acknowledge(Connection& connection, size_t direction,
                                  const TcpSegment& segment) {
    Stream& other = connection.directions[1 - direction].stream;
    while (segment.ack && other.acknowledged_beyond_hole(segment.acknowledgement)) {
        other.skip_hole(found_, *tally_);
    }
    note(connection, 1 - direction);
}

void ConnectionTable::expire(Nanoseconds now) {
    while (!open_.empty() && now - open_.front().last > options_->connection_timeout) {
        retire(open_.begin());
    }
    while (!closed_.empty() && now - closed_.front().last > kClosedTimeout) {
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
            tally_->add(Count::kTcpEvicted);
            retire(open_.begin());
        } else {
            return;
        }
    }
}

void ConnectionTable::show(std::vector<Query>& out) {
    constexpr Nanoseconds kMostLate = kSecond / 2;
    for (const Place& place : places_) {
        Direction& direction = place.connection->directions[place.direction];
        const bool late = now_ - place.found.time > kMostLate;
        direction.latest = late ? now_ : place.found.time;
        out.push_back({.time = direction.latest,
                       .source = place.connection->key.ends[place.direction],
                       .destination = place.connection->key.ends[1 - place.direction],
                       .connection = place.connection->id,
                       .transport = Transport::kTcp,
                       .message = direction.stream.bytes(place.found)});
        direction.asked |= !out.back().is_response();
    }
    places_.clear();
}

/// Who closes first is the sender of the first FIN or RST. One from far outside of the stream
/// closes nothing (RFC 5961 section 3): it is of an earlier use of the ports, or forged.
void ConnectionTable::note_close(Connection& connection, size_t direction,
                                 const TcpSegment& segment, Nanoseconds now) {
    if (connection.directions[direction].stream.foreign(segment.sequence)) {
        return;
    }
    Close& close = connection.close;
    if (!close.seen && (segment.fin || segment.rst)) {
        const auto size = static_cast<std::uint32_t>(segment.payload.size());
        close = {.seen = true,
                 .direction = direction,
                 .end = segment.sequence + (segment.syn ? 1U : 0U) + size,
                 .time = now};
    }
    const bool acknowledged = direction != close.direction && segment.ack &&
                              static_cast<std::int32_t>(segment.acknowledgement - close.end) >= 0;
    close.final |= close.seen && (segment.rst || acknowledged);
}

/// The client is the end that asked; of two, the one without a DNS port.
bool ConnectionTable::client_closed(const Connection& connection) const {
    const size_t closer = connection.close.direction;
    const std::uint16_t port = connection.key.ends.at(closer).port;
    return connection.directions.at(closer).asked &&
           (!connection.directions.at(1 - closer).asked ||
            std::ranges::count(options_->ports, port) == 0);
}

/// Shows the client's close once all of its bytes were seen or are given up.
void ConnectionTable::tell_close(Connection& connection, std::vector<Query>& out) const {
    Close& close = connection.close;
    const Direction& from = connection.directions.at(close.direction);
    const bool due = close.seen && !close.told && !from.stream.waiting() &&
                     (close.final || from.stream.reached(close.end));
    if (due && client_closed(connection)) {
        close.told = true;
        out.push_back({.time = std::max(close.time, from.latest),
                       .source = connection.key.ends.at(close.direction),
                       .destination = connection.key.ends.at(1 - close.direction),
                       .connection = connection.id,
                       .transport = Transport::kTcp,
                       .message = {}});
    }
}

void ConnectionTable::tell_handshake(Connection& connection, size_t direction,
                                     const TcpSegment& segment, Nanoseconds now) const {
    TcpHandshake times;
    if (connection.handshake.see(segment, direction, now, times)) {
        const size_t client = connection.handshake.client();
        times.client = connection.key.ends.at(client);
        times.server = connection.key.ends.at(1 - client);
        options_->handshakes(times);
    }
}

void ConnectionTable::add(const IpPacket& ip, const TcpSegment& segment, Nanoseconds now,
                          std::vector<Query>& out) {
    retired_.clear();
    now_ = now;
    expire(now);
    const Endpoint from{.address = ip.source, .port = segment.source_port};
    const Endpoint to{.address = ip.destination, .port = segment.destination_port};
    const size_t direction = to < from ? 1 : 0;
    const Key key{.ends = {direction == 0 ? from : to, direction == 0 ? to : from}};
    Connection* connection = find(key, direction, segment, now);
    if (connection != nullptr) {
        touch(*connection, segment, direction, now);
        for (Direction& each : connection->directions) {
            memory_ -= each.stream.memory();
            each.stream.begin();
        }
        acknowledge(*connection, direction, segment);
        feed(*connection, direction, segment, now);
        for (const Direction& each : connection->directions) {
            memory_ += each.stream.memory();
        }
        make_room(*connection);
    }
    show(out);
    if (options_->handshakes && connection != nullptr) {
        tell_handshake(*connection, direction, segment, now);
    }
    if (options_->closes && connection != nullptr) {
        note_close(*connection, direction, segment, now);
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

} // namespace reprise::trace
