#include "core/trace/pairs.hh"

#include "core/base/random.hh"
#include "core/base/text.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/wire/query.hh"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>

namespace reprise::trace {
namespace {

constexpr size_t kMostEarly = 256;

std::uint64_t hash_of(Bytes bytes, std::uint64_t seed) {
    static const std::uint64_t key = std::random_device{}(); // a trace cannot be made to collide
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed + key);
}

std::uint64_t end_of(const Endpoint& end, std::uint64_t seed) {
    return hash_of({end.address.bytes.data(), end.address.size()}, seed + end.port);
}

/// Of both ends and the connection: the same for queries and their responses. `more` goes in.
std::uint64_t way_of(const Query& query, std::uint64_t more = 0) {
    const bool response = query.is_response();
    const std::uint64_t seed = query.connection * kGoldenStep +
                               (static_cast<std::uint64_t>(query.transport) << 32U) + (more << 16U);
    return end_of(response ? query.source : query.destination,
                  end_of(response ? query.destination : query.source, seed));
}

std::uint64_t id_of(Bytes message) { return parse_header(message).value_or(DnsHeader{}).id; }

/// Without regard to case (RFC 4343), which some servers do not keep. 0 where none can be read.
std::uint64_t question_of(Bytes message) {
    const auto question = parse_question(message);
    if (!question) {
        return 0;
    }
    std::array<std::uint8_t, Name::kMost> name;
    std::ranges::transform(question->name, name.begin(), Lower{});
    return hash_of(Bytes(name).first(question->name.size()),
                   std::uint64_t{question->type} << 16U | question->dns_class) |
           1U;
}

/// Of a query or its response, by everything.
std::uint64_t exchange_of(const Query& query) {
    return mix_bits(way_of(query, id_of(query.message)) + question_of(query.message));
}

std::uint64_t client_of(const Endpoint& client) { return end_of({client.address, 0}, 0); }

} // namespace

bool Retransmits::repeats(const Query& query) {
    const auto question = parse_question(query.message);
    if (query.transport != Transport::kUdp || !question) {
        return false;
    }
    const std::uint64_t sender = end_of(query.source, id_of(query.message) << 16U);
    const std::uint64_t key = hash_of(question->raw, sender);
    kept_.advance(query.time);
    const Nanoseconds* const before = kept_.find(key);
    if (before != nullptr && query.time - *before < timeout_) {
        return true;
    }
    kept_.add(key) = query.time;
    return false;
}

void AskedBefore::advance(Nanoseconds now) {
    asked_.advance(now);
    ways_.advance(now);
    clients_.advance(now);
}

void AskedBefore::query(const Query& query) {
    advance(query.time);
    ++queries_;
    first_ = first_.value_or(query.time);
    ways_.add(way_of(query));
    clients_.add(client_of(query.source));
    const std::uint64_t key = exchange_of(query);
    const std::uint8_t* const before = asked_.find(key); // a repeated query is one with that
    const std::uint8_t answered = before != nullptr ? *before : std::uint8_t{0};
    asked_.add(key) = answered;
}

Asked AskedBefore::response(const Query& query) {
    advance(query.time);
    if (std::uint8_t* const answered = asked_.find(exchange_of(query))) {
        answered_ += *answered == 0 ? 1U : 0U;
        *answered = 1;
        return Asked::kYes;
    }
    // A forged response to a port that asked nobody must not count because it missed by the port.
    const bool begun = first_ && query.time - *first_ >= kBegin;
    const bool blind = query.transport == Transport::kUdp && begun &&
                       clients_.find(client_of(query.destination)) != nullptr;
    return blind || ways_.find(way_of(query)) != nullptr ? Asked::kNo : Asked::kUnknown;
}

Pairer::Message Pairer::message_of(const Query& query) const {
    Message message{.key = way_of(query, id_of(query.message)),
                    .question = question_of(query.message),
                    .time = query.time,
                    .bytes = {}};
    if (options_.keep_bytes) {
        message.bytes.assign(query.message.begin(), query.message.end());
    }
    return message;
}

void Pairer::add(const Query& query) {
    Query steady = query;
    steady.time = steady_.of_query(query.time);
    latest_ = std::max(latest_, steady.time);
    close_old();
    if (query.is_response()) {
        add_response(steady);
    } else {
        add_query(steady);
    }
}

void Pairer::add_query(const Query& query) {
    if (open_.size() == chains_.size()) {
        grow();
    }
    Open& open = open_.emplace_back();
    open.query = message_of(query);
    open.size = static_cast<std::uint32_t>(query.message.size());
    held_ += open.size;
    const std::uint64_t sequence = counts_.queries++;
    if (early_.empty() || !match_early(open)) {
        enter(sequence);
    }
}

void Pairer::enter(std::uint64_t sequence) {
    open_at(sequence).next = kNone;
    Chain& chain = chain_of(open_at(sequence).query.key);
    (chain.first == kNone ? chain.first : open_at(chain.last).next) = sequence;
    chain.last = sequence;
}

/// `before` is the one before it in its chain.
void Pairer::leave(Chain& chain, std::uint64_t before, std::uint64_t sequence) {
    (before == kNone ? chain.first : open_at(before).next) = open_at(sequence).next;
    chain.last = sequence == chain.last ? before : chain.last;
}

void Pairer::grow() {
    chains_.assign(2 * chains_.size(), {});
    for (std::uint64_t sequence = first_; sequence < counts_.queries; ++sequence) {
        if (!open_at(sequence).answered) {
            enter(sequence);
        }
    }
}

void Pairer::add_response(const Query& query) {
    ++counts_.responses;
    Message reply = message_of(query);
    if (Open* const open = take(reply)) {
        answer(*open, reply);
        return;
    }
    drop_early(query.time - options_.skew);
    if (early_.size() == kMostEarly) {
        early_.pop_front();
        ++counts_.unmatched_responses;
    }
    early_.push_back(std::move(reply));
}

/// Takes out of its chain the oldest query with the same question, else the oldest that cannot be
/// told apart; null where there is none.
Pairer::Open* Pairer::take(const Message& reply) {
    Chain& chain = chain_of(reply.key);
    std::uint64_t found = kNone;
    std::uint64_t before_found = kNone;
    bool same = false;
    for (std::uint64_t before = kNone, at = chain.first; at != kNone && !same;) {
        const Open& open = open_at(at);
        const bool told = reply.question != 0 && open.query.question != 0;
        if (open.query.key == reply.key) {
            same = told && open.query.question == reply.question;
            if (same || (!told && found == kNone)) {
                found = at;
                before_found = before;
            }
        }
        before = std::exchange(at, open.next);
    }
    if (found == kNone) {
        return nullptr;
    }
    leave(chain, before_found, found);
    return &open_at(found);
}

bool Pairer::match_early(Open& open) {
    drop_early(open.query.time - options_.skew);
    const auto found = std::ranges::find_if(early_, [&](const Message& early) {
        const bool told = early.question != 0 && open.query.question != 0;
        return early.key == open.query.key && (!told || early.question == open.query.question);
    });
    if (found == early_.end()) {
        return false;
    }
    answer(open, *found);
    early_.erase(found);
    ++counts_.early_responses;
    return true;
}

void Pairer::drop_early(Nanoseconds before) {
    while (!early_.empty() && early_.front().time < before) {
        early_.pop_front();
        ++counts_.unmatched_responses;
    }
}

void Pairer::answer(Open& open, const Message& reply) {
    ++counts_.matched;
    open.answered = true;
    open.reply_time = reply.time;
    open.query.bytes.insert(open.query.bytes.end(), reply.bytes.begin(), reply.bytes.end());
    held_ += reply.bytes.size();
}

/// One that was not answered is the oldest of its chain.
void Pairer::close_front() {
    Open& open = open_.front();
    if (!open.answered) {
        ++counts_.unanswered;
        leave(chain_of(open.query.key), kNone, first_);
    }
    const Bytes bytes = open.query.bytes;
    const size_t asked = std::min<size_t>(open.size, bytes.size());
    sink_({.sequence = first_,
           .query_time = open.query.time,
           .reply_time = open.reply_time,
           .answered = open.answered,
           .query = bytes.first(asked),
           .reply = bytes.subspan(asked)});
    held_ -= std::max<size_t>(open.size, bytes.size());
    open_.pop_front();
    ++first_;
}

void Pairer::close_old() {
    while (!open_.empty()) {
        const Open& front = open_.front();
        const bool expired = front.query.time < latest_ - options_.window;
        const bool full = held_ > options_.memory;
        if (!front.answered && !expired && !full) {
            return;
        }
        counts_.closed_early += !front.answered && !expired ? 1U : 0U;
        close_front();
    }
}

void Pairer::finish() {
    while (!open_.empty()) {
        close_front();
    }
    counts_.unmatched_responses += early_.size();
    early_.clear();
}

} // namespace reprise::trace
