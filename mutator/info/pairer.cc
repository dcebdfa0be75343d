#include "mutator/info/pairer.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/mix.hh"
#include "core/dns/message.hh"
#include "core/wire/query.hh"

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace reprise::mutator {
namespace {

constexpr size_t kMostEarly = 256;
constexpr size_t kMostSpareMessage = 512; ///< bytes; larger ones go back to the allocator

/// 2: the same question; 1: one of them has none that can be read; 0: different questions.
int likeness(Bytes query, Bytes reply) {
    const auto asked = parse_question(query);
    const auto answered = parse_question(reply);
    if (!asked || !answered) {
        return 1;
    }
    return same_question(*asked, *answered) ? 2 : 0;
}

} // namespace

std::uint64_t Pairer::number_of(const Key& key) const {
    const auto add = [](const Endpoint& end, std::uint64_t seed) {
        const auto& bytes = end.address.bytes;
        return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed + end.port);
    };
    const std::uint64_t rest = key.connection * kGoldenStep + (std::uint64_t{key.id} << 16U);
    return add(key.server, add(key.client, seed_ + rest));
}

Pairer::Pairer(const PairerOptions& options, Sink sink)
    : options_(options), sink_(std::move(sink)) {}

Pairer::Key Pairer::key_of(const Query& query) {
    Key key{query.source, query.destination, query.connection, 0, query.transport};
    if (query.is_response()) {
        std::swap(key.client, key.server);
    }
    if (const auto header = parse_header(query.message)) {
        key.id = header->id;
    }
    return key;
}

void Pairer::add(const Query& query) {
    latest_ = std::max(latest_, query.time);
    close_old();
    if (query.is_response()) {
        add_response(query);
    } else {
        add_query(query);
    }
}

void Pairer::add_query(const Query& query) {
    Open open{.key = key_of(query), .exchange = {}};
    open.number = number_of(open.key);
    open.exchange.sequence = counts_.queries++;
    open.exchange.query_time = query.time;
    open.exchange.transport = query.transport;
    if (!spare_messages_.empty()) {
        open.exchange.query = std::move(spare_messages_.back());
        spare_messages_.pop_back();
    }
    open.exchange.query.assign(query.message.begin(), query.message.end());
    held_ += query.message.size();
    open_.push_back(std::move(open));
    if (early_.empty() || !match_early(open_.back())) {
        enter(open_.back());
    }
}

void Pairer::enter(const Open& open) {
    const std::uint64_t sequence = open.exchange.sequence;
    if (spare_chains_.empty()) {
        spare_chains_.push_back(Index{{open.number, {}}}.extract(open.number));
    }
    spare_chains_.back().key() = open.number;
    spare_chains_.back().mapped() = {.first = sequence, .last = sequence};
    auto entered = index_.insert(std::move(spare_chains_.back()));
    if (entered.inserted) {
        spare_chains_.pop_back();
        return;
    }
    spare_chains_.back() = std::move(entered.node);
    Chain& chain = entered.position->second;
    open_at(chain.last).next = sequence;
    chain.last = sequence;
}

void Pairer::leave(Index::iterator chain, const Found& query) {
    auto& [first, last] = chain->second;
    const std::uint64_t next = open_at(query.at).next;
    (query.before == kNone ? first : open_at(query.before).next) = next;
    last = query.at == last ? query.before : last;
    if (first == kNone) {
        spare_chains_.push_back(index_.extract(chain));
    }
}

void Pairer::add_response(const Query& query) {
    ++counts_.responses;
    const Key key = key_of(query);
    if (match(key, query.time, query.message)) {
        return;
    }
    drop_early(query.time - options_.skew);
    if (early_.size() == kMostEarly) {
        early_.pop_front();
        ++counts_.unmatched_responses;
    }
    early_.push_back({key, query.time, {query.message.begin(), query.message.end()}});
}

bool Pairer::match(const Key& key, Nanoseconds time, Bytes reply) {
    const auto found = index_.find(number_of(key));
    if (found == index_.end()) {
        return false;
    }
    const Found best = find_open(found->second, key, reply);
    if (best.at == kNone) {
        return false;
    }
    Open& open = open_at(best.at);
    leave(found, best);
    answer(open, time, reply);
    return true;
}

/// The oldest with the same question, else the oldest that cannot be told apart.
Pairer::Found Pairer::find_open(const Chain& chain, const Key& key, Bytes reply) {
    Found second_best;
    Found here{.before = kNone, .at = chain.first};
    for (; here.at != kNone; here = {.before = here.at, .at = open_at(here.at).next}) {
        const Open& open = open_at(here.at);
        const int like = open.key == key ? likeness(open.exchange.query, reply) : 0;
        if (like == 2) {
            return here;
        }
        if (like == 1 && second_best.at == kNone) {
            second_best = here;
        }
    }
    return second_best;
}

bool Pairer::match_early(const Open& open) {
    drop_early(open.exchange.query_time - options_.skew);
    const auto found = std::ranges::find_if(early_, [&](const Early& early) {
        return early.key == open.key && likeness(open.exchange.query, early.bytes) > 0;
    });
    if (found == early_.end()) {
        return false;
    }
    answer(open_.back(), found->time, found->bytes);
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

void Pairer::answer(Open& open, Nanoseconds time, Bytes reply) {
    ++counts_.matched;
    open.exchange.answered = true;
    open.exchange.reply_time = time;
    if (options_.keep_replies) {
        open.exchange.reply.assign(reply.begin(), reply.end());
        held_ += reply.size();
    }
}

/// Takes an unanswered query out of the index; it is the oldest of its key.
void Pairer::forget(const Open& open) {
    const auto found = index_.find(open.number);
    leave(found, {.before = kNone, .at = open.exchange.sequence});
}

void Pairer::close_front() {
    Open& open = open_.front();
    if (!open.exchange.answered) {
        ++counts_.unanswered;
        forget(open);
    }
    sink_(open.exchange);
    held_ -= open.exchange.query.size() + open.exchange.reply.size();
    if (open.exchange.query.capacity() <= kMostSpareMessage) {
        spare_messages_.push_back(std::move(open.exchange.query));
    }
    open_.pop_front();
}

void Pairer::close_old() {
    while (!open_.empty()) {
        const Exchange& front = open_.front().exchange;
        const bool expired = front.query_time < latest_ - options_.window;
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

} // namespace reprise::mutator
