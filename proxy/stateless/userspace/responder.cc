#include "proxy/stateless/userspace/responder.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "core/base/text.hh"
#include "core/dns/message.hh"
#include "core/dns/words.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/userspace/segment.hh"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace reprise::proxy::stateless {

namespace {

constexpr size_t kPrefix = 2; // the message's size over TCP
constexpr size_t kSearched = 64;

/// Without regard to the case of the name, which a server may change. Never 0.
std::uint32_t hash_of(const DnsQuestion& question) {
    std::array<std::uint8_t, 255 + 4> lower{}; // name, type and class
    std::ranges::transform(question.raw, lower.begin(), Lower{});
    return static_cast<std::uint32_t>(XXH3_64bits(lower.data(), question.raw.size())) | 1U;
}

/// 0 where the message has none that can be read, as some errors of servers.
std::uint32_t question_hash(Bytes message) {
    const auto question = parse_question(message);
    return question ? hash_of(*question) : 0;
}

bool is_query(Bytes message) {
    const auto header = parse_header(message);
    return header && !header->is_response();
}

bool answers(const Pending& entry, const Endpoint& from, Bytes message) {
    const auto header = parse_header(message);
    const std::uint32_t question = question_hash(message);
    return header && header->is_response() && from == entry.connection.server &&
           (question == 0 || entry.question == 0 || question == entry.question);
}

} // namespace

const Pending& ForwardedQueries::add(Pending entry) {
    if (entries_.size() >= limit_) {
        erase(entries_.begin());
        ++evictions_;
    }
    do { // soon done: at most a quarter of the keys is in use
        entry.key = static_cast<QueryKey>(random_.bits() % (kSockets << 16U));
    } while (by_key_.contains(entry.key));
    const auto added = entries_.insert(entries_.end(), entry);
    by_connection_[entry.connection] = added;
    by_key_[entry.key] = added;
    peak_ = std::max(peak_, entries_.size());
    lived_ -= now_;
    return *added;
}

const Pending* ForwardedQueries::find(const Connection& connection) const {
    const auto found = by_connection_.find(connection);
    return found == by_connection_.end() ? nullptr : &*found->second;
}

const Pending* ForwardedQueries::find(QueryKey key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &*found->second;
}

void ForwardedQueries::remove(const Connection& connection) {
    if (const auto found = by_connection_.find(connection); found != by_connection_.end()) {
        erase(found->second);
    }
}

size_t ForwardedQueries::expire(Nanoseconds now) {
    now_ = now;
    const size_t before = entries_.size();
    while (!entries_.empty() && entries_.front().deadline <= now) {
        erase(entries_.begin());
    }
    return before - entries_.size();
}

std::optional<Nanoseconds> ForwardedQueries::next_due() const {
    return entries_.empty() ? std::nullopt : std::optional(entries_.front().deadline);
}

void ForwardedQueries::erase(Entries::iterator entry) {
    by_key_.erase(entry->key);
    by_connection_.erase(entry->connection);
    entries_.erase(entry);
    lived_ += now_;
}

bool asks_transfer(Bytes message) {
    const auto question = parse_question(message.first(std::min(message.size(), kSearched)));
    return question && question->type == kTypeAxfr;
}

Responder::Responder(const StatelessOptions& options, size_t mtu, std::uint64_t secret,
                     Random& random, Outside& outside, StatelessCounts& counters)
    : options_(options), outside_(outside), counters_(counters), numbers_(secret, mtu),
      pending_(options.entries, random) {}

void Responder::take_packet(Bytes packet, Nanoseconds now) {
    expire(now);
    const auto segment = read_segment(packet);
    if (!segment || segment->connection.server.port != options_.port) {
        ++counters_.malformed;
        return;
    }
    if (outside_.relayed(*segment, now)) {
        return;
    }
    counters_.fin += segment->has(kFin) ? 1U : 0U;
    if (segment->has(kRst)) {
        ++counters_.rst;
        const Pending* const entry = pending_.find(segment->connection);
        if (entry != nullptr && segment->seq - entry->ack <= 1) { // after the query, or its FIN
            pending_.remove(segment->connection);                 // others may be anybody's
        }
    } else if (segment->has(kSyn)) {
        accept(*segment);
    } else if (!segment->data.empty()) {
        take_data(*segment, now);
    } else if (segment->has(kFin)) {
        acknowledge(*segment);
    } else {
        ++counters_.handshake_ack;
    }
}

void Responder::accept(const Segment& segment) {
    ++counters_.syn;
    const Pending* const entry = pending_.find(segment.connection);
    if (entry != nullptr && entry->query_seq != segment.seq + 1) { // else a copy that comes late
        pending_.remove(segment.connection); // of a connection before, whose port is used again
    }
    outside_.send({.connection = segment.connection,
                   .seq = numbers_.first(segment.connection, segment.mss),
                   .ack = segment.seq + 1,
                   .flags = kSyn | kAck,
                   .mss = numbers_.own_mss(segment.connection.client.address)});
    ++counters_.syn_ack;
}

void Responder::acknowledge(const Segment& segment, std::uint8_t more) {
    outside_.send({.connection = segment.connection,
                   .seq = segment.ack,
                   .ack = segment.end(),
                   .flags = static_cast<std::uint8_t>(kAck | more)});
}

void Responder::take_data(const Segment& segment, Nanoseconds now) {
    const size_t size = segment.data.size() < kPrefix ? kMaxMessage : load16(segment.data.data());
    if (size + kPrefix > segment.data.size()) {
        ++counters_.not_promoted[kSplit];
        return;
    }
    const Bytes message = segment.data.subspan(kPrefix, size);
    if (!is_query(message)) {
        ++counters_.malformed;
        return;
    }
    if (size + kPrefix < segment.data.size()) {
        ++counters_.not_promoted[kPipelined]; // the first one is answered all the same
    }
    if (options_.axfr_detect && asks_transfer(message)) {
        relay(segment, now);
    } else {
        take_query(segment, message, now);
    }
}

void Responder::relay(const Segment& segment, Nanoseconds now) {
    if (pending_.find(segment.connection) != nullptr) { // its answer begins at the same number
        ++counters_.waiting;
        return;
    }
    if (outside_.relay(segment, numbers_.mss(segment.connection, segment.ack), now)) {
        ++counters_.promoted[kTransfer];
        return;
    }
    ++counters_.not_promoted[kTransfer];
    ++counters_.reset;
    acknowledge(segment, kRst);
}

void Responder::take_query(const Segment& segment, Bytes message, Nanoseconds now) {
    const Pending* entry = pending_.find(segment.connection);
    if (entry != nullptr && entry->query_seq != segment.seq) {
        ++counters_.waiting;
        return;
    }
    if (entry != nullptr) {
        ++counters_.retransmitted;
    } else {
        entry = &pending_.add({.connection = segment.connection,
                               .client_id = load16(message.data()),
                               .mss = numbers_.mss(segment.connection, segment.ack),
                               .query_seq = segment.seq,
                               .seq = segment.ack,
                               .ack = segment.end(),
                               .question = question_hash(message),
                               .deadline = now + options_.timeout_ms * kMillisecond});
    }
    if (options_.early_ack) {
        acknowledge(segment);
    }
    ask(*entry, message);
}

void Responder::ask(const Pending& entry, Bytes message) {
    query_.assign(message.begin(), message.end());
    store16(query_.data(), entry.key);
    ++counters_.queries;
    outside_.ask(entry.key >> 16U, entry.connection.server, query_);
}

void Responder::take_answer(unsigned socket, const Endpoint& from, std::span<std::uint8_t> prefixed,
                            Nanoseconds now) {
    expire(now);
    const Bytes message = Bytes(prefixed).subspan(kPrefix);
    const Pending* const entry = message.size() < kDnsHeaderSize
                                     ? nullptr
                                     : pending_.find(socket << 16U | load16(message.data()));
    if (entry == nullptr || !answers(*entry, from, message)) {
        ++counters_.late;
        return;
    }
    store16(prefixed.data(), message.size());
    store16(&prefixed[kPrefix], entry->client_id);
    answer(*entry, prefixed);
    pending_.remove(Connection(entry->connection));
}

void Responder::answer(const Pending& entry, Bytes stream) {
    ++counters_.replies;
    for (size_t at = 0; at < stream.size();) {
        const Bytes part = stream.subspan(at, std::min<size_t>(entry.mss, stream.size() - at));
        const bool last = at + part.size() == stream.size();
        const unsigned end = last ? kPush | (options_.fin_last ? unsigned{kFin} : 0U) : 0U;
        outside_.send({.connection = entry.connection,
                       .seq = entry.seq + static_cast<std::uint32_t>(at),
                       .ack = entry.ack,
                       .flags = static_cast<std::uint8_t>(kAck | end),
                       .data = part});
        ++counters_.segments;
        at += part.size();
    }
}

} // namespace reprise::proxy::stateless
