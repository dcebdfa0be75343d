#include "mutator/info/pairer.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/mix.hh"
#include "core/dns/message.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace reprise::mutator {
namespace {

constexpr size_t kMostEarly = 256;

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

size_t Pairer::KeyHash::operator()(const Key& key) const noexcept {
    size_t hash = std::hash<Endpoint>{}(key.client);
    hash = hash * kGoldenStep + std::hash<Endpoint>{}(key.server);
    return (hash * kGoldenStep + key.connection) * kGoldenStep + key.id;
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
    open.exchange.sequence = counts_.queries++;
    open.exchange.query_time = query.time;
    open.exchange.transport = query.transport;
    open.exchange.query.assign(query.message.begin(), query.message.end());
    held_ += query.message.size();
    open_.push_back(std::move(open));
    if (early_.empty() || !match_early(open_.back())) {
        index_[open_.back().key].push_back(open_.back().exchange.sequence);
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
    const auto found = index_.find(key);
    if (found == index_.end()) {
        return false;
    }
    const auto best = find_open(found->second, reply);
    if (best == found->second.end()) {
        return false;
    }
    Open& open = open_at(*best);
    found->second.erase(best);
    if (found->second.empty()) {
        index_.erase(found);
    }
    answer(open, time, reply);
    return true;
}

/// The oldest with the same question, else the oldest that cannot be told apart.
Pairer::OpenList::iterator Pairer::find_open(OpenList& list, Bytes reply) {
    auto second_best = list.end();
    for (auto it = list.begin(); it != list.end(); ++it) {
        const int like = likeness(open_at(*it).exchange.query, reply);
        if (like == 2) {
            return it;
        }
        if (like == 1 && second_best == list.end()) {
            second_best = it;
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
    const auto found = index_.find(open.key);
    found->second.erase(found->second.begin());
    if (found->second.empty()) {
        index_.erase(found);
    }
}

void Pairer::close_front() {
    const Open& open = open_.front();
    if (!open.exchange.answered) {
        ++counts_.unanswered;
        forget(open);
    }
    sink_(open.exchange);
    held_ -= open.exchange.query.size() + open.exchange.reply.size();
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
