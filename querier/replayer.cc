#include "querier/replayer.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/limits.hh"
#include "core/dns/message.hh"
#include "core/wire/credit.hh"
#include "core/wire/query.hh"
#include "core/wire/result_file.hh"
#include "querier/network/connection_options.hh"
#include "querier/network/network.hh"
#include "querier/network/replay_options.hh"
#include "querier/network/source_prefix.hh"
#include "querier/results/results.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/schedule/waiter.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/transport.hh"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::querier {

static_assert(kMostPeers + 1 == kMostUdp);

namespace {

/// Between two looks at the schedule, so that a dead server's timeouts do not delay sending.
constexpr int kExpireBurst = 64;
/// A socket that holds data for longer is not waited for: it is being flooded.
constexpr Nanoseconds kLongestUnread = kSecond;
/// Keys of ended queries are remembered for the timeout once more, at least for so long.
constexpr Nanoseconds kShortestLinger = 5 * kSecond;
/// Opening a socket takes half of this.
constexpr Nanoseconds kPrepareTime = 150 * kMicrosecond;
constexpr Owner kPrepareOwner = ~Owner{0};
constexpr Nanoseconds kWarmTime = 20 * kMillisecond;
constexpr Nanoseconds kWarmStep = kMillisecond;

ConnectionOptions connection_options(const ReplayOptions& options) {
    ConnectionOptions out = options.connection;
    out.timeout = options.timeout;
    out.kernel_stamps = !options.fast;
    return out;
}

Servers servers_with(const Endpoint& peer) {
    Servers servers;
    (peer.address.is_v4() ? servers.v4 : servers.v6) = peer;
    return servers;
}

} // namespace

Replayer::Replayer(Network& network, const ReplayOptions& options, Results& results)
    : clock_(network.clock()), options_(options), results_(results),
      queries_(options.credit.records + 2 * options.in_flight + UdpTransport::kMostStaged),
      backlog_(options.credit), waiter_(options.waiter),
      matcher_(queries_, options.in_flight, std::max(options.timeout, kShortestLinger)),
      descriptors_(options.descriptors),
      connections_({.network = network,
                    .descriptors = descriptors_,
                    .queries = queries_,
                    .matcher = matcher_,
                    .stamps = stamps_,
                    .statistics = statistics_,
                    .events = *this},
                   options.servers, connection_options(options), source_of()),
      keep_messages_(options.answers || options.hedge_after > 0 || options.tcp_fallback) {
    open_udp(network);
    if (options.dependent) {
        dependents_ = std::make_unique<Dependents>(queries_);
    }
}

void Replayer::open_udp(Network& network) {
    const UdpParts parts{.descriptors = descriptors_,
                         .queries = queries_,
                         .statistics = statistics_,
                         .events = *this};
    UdpWish wish{.options = options_, .servers = options_.servers, .source = source_of()};
    udp_.push_back(network.udp_transport(wish, parts));
    if (options_.hedge_after <= 0) {
        return;
    }
    std::vector<std::uint8_t> families;
    for (const Endpoint& peer : options_.peers) {
        families.push_back(peer.address.family);
        wish.servers = servers_with(peer);
        wish.number = static_cast<std::uint8_t>(udp_.size());
        udp_.push_back(network.udp_transport(wish, parts));
    }
    hedges_ = std::make_unique<Hedges>(queries_, options_.hedge_after, std::move(families));
}

/// Nothing where the host's own address is meant.
SourceOf Replayer::source_of() const {
    switch (options_.source_mode) {
    case SourceMode::kAddresses:
    case SourceMode::kPacket: // for TCP and TLS, which need the host's stack
        return [](const PendingQuery& pending) { return std::optional(pending.source.address); };
    case SourceMode::kMapped:
        return [prefixes =
                    options_.prefixes](const PendingQuery& pending) -> std::optional<IpAddress> {
            const auto prefix = std::ranges::find(
                prefixes, pending.family(), [](const auto& one) { return one.address.family; });
            return prefix == prefixes.end() ? std::nullopt
                                            : source_address(*prefix, pending.record.source);
        };
    default:
        return {};
    }
}

void Replayer::start(Nanoseconds start) {
    base_ = start;
    started_ = true;
}

Nanoseconds Replayer::lag(Nanoseconds now) const {
    return !started_ || options_.fast || backlog_.empty() ? 0
                                                          : std::max<Nanoseconds>(now - due(), 0);
}

Credit Replayer::take_departed() {
    return {.records = std::exchange(departed_, 0), .bytes = backlog_.take_freed()};
}

bool Replayer::quiet(Nanoseconds now, Nanoseconds work) const {
    return !started_ || options_.fast || backlog_.empty() || due() - now > work;
}

const Statistics& Replayer::statistics() {
    statistics_.received = backlog_.received();
    return statistics_;
}

// Ends

/// As the Matcher's; queries that timed out before the reply came have ended by then.
Matcher::Match Replayer::match_in_time(Owner owner, const Reply& reply) {
    Matcher::Match match = matcher_.match(owner, reply.bytes, reply.size, now_);
    while (match.kind == Matcher::Kind::kAnswer &&
           reply.received > queries_[match.pending].deadline) {
        finish(match.pending, Status::kTimedOut);
        match = matcher_.match(owner, reply.bytes, reply.size, now_);
    }
    return match;
}

void Replayer::on_reply(Owner owner, const Reply& reply) {
    const Matcher::Match match = match_in_time(owner, reply);
    switch (match.kind) {
    case Matcher::Kind::kAnswer:
        if (fall_back(match.pending, reply)) {
            return;
        }
        queries_[match.pending].record.marks |= match.trailing ? kMarkTrailing : std::uint16_t{0};
        fill_answer(queries_[match.pending], reply);
        finish(match.pending, Status::kAnswered, reply.bytes);
        return;
    case Matcher::Kind::kLate:
        ++statistics_.late;
        return;
    case Matcher::Kind::kDuplicate:
        ++statistics_.duplicate_answers;
        return;
    case Matcher::Kind::kUnmatched:
        ++statistics_.unmatched;
        return;
    case Matcher::Kind::kMalformed:
        ++statistics_.malformed;
        return;
    }
}

/// A truncated answer: the query goes out again over TCP, with a timeout of its own. Not from here:
/// a transport is at work.
bool Replayer::fall_back(std::uint32_t index, const Reply& reply) {
    PendingQuery& pending = queries_[index];
    const bool truncated = parse_header(reply.bytes).value_or(DnsHeader{}).truncated();
    if (!options_.tcp_fallback || pending.carrier != Transport::kUdp || !truncated) {
        return false;
    }
    leave(index, true);
    pending.carrier = Transport::kTcp;
    pending.place = kNone;
    pending.waited = true; // its lateness is the server's
    pending.record.marks |= kMarkFallback;
    ++statistics_.tcp_fallbacks;
    ready_.push_back(index);
    return true;
}

void Replayer::fill_answer(PendingQuery& pending, const Reply& reply) {
    if (pending.id != pending.wire_id) {
        store16(reply.bytes.data(), pending.id);
    }
    RqRecord& record = pending.record;
    record.receive = reply.received;
    if (record.receive < record.send) { // a step of the clock that nobody saw
        record.receive = clock_.now();
        record.marks |= kMarkClockStep;
    }
    record.latency = record.receive - record.send;
    record.reply_size = static_cast<std::uint32_t>(reply.size);
    record.rcode = full_rcode(reply.bytes);
    record.flags = parse_header(reply.bytes).value_or(DnsHeader{}).flags;
    if (stamps_.stepped()) {
        record.marks |= kMarkClockStep;
    }
}

void Replayer::on_failed(std::uint32_t pending, Status status) { finish(pending, status); }

/// The query leaves its transport.
void Replayer::leave(std::uint32_t index, bool answered) {
    PendingQuery& pending = queries_[index];
    if (is_stream(pending.carrier)) {
        connections_.detach(index);
    } else if (pending.in_flight) {
        udp_[pending.peer]->release(pending.place);
    }
    land(index);
    matcher_.end(index, answered, now_);
    if (hedges_) {
        hedges_->unwatch(index);
    }
}

void Replayer::finish(std::uint32_t index, Status status, Bytes reply) {
    leave(index, status == Status::kAnswered);
    PendingQuery& pending = queries_[index];
    const bool whole = !hedges_ || pending.pair == kNone || hedges_->settle(index, status);
    if (whole) {
        pending.record.status = status;
        pending.record.send = pending.written ? pending.record.send : 0;
        statistics_.reply_bytes += pending.record.reply_size;
        statistics_.count_end(status);
        results_.write(pending, reply, stamps_.to_realtime(pending.record.receive));
        if (dependents_) {
            if (const std::uint32_t next = dependents_->end(pending.record.source); next != kNone) {
                ready_.push_back(next);
                ++departed_;
            }
        }
    }
    queries_.give_back(index);
    write_hedges();
}

void Replayer::skip(std::uint32_t index, SkipReason reason) {
    queries_[index].record.reason = reason;
    finish(index, Status::kSkipped);
}

void Replayer::expire(Nanoseconds now) {
    now_ = now;
    const Nanoseconds read =
        std::max(std::min({now, read_until_, polled_until_}), now - kLongestUnread);
    for (int n = 0; n < kExpireBurst; ++n) {
        const std::uint32_t index = deadlines_.front();
        if (index == kNone || queries_[index].deadline > read) {
            break;
        }
        if (!is_stream(queries_[index].carrier) || !connections_.timed_out(index, now)) {
            finish(index, Status::kTimedOut);
        }
    }
    hedge(now);
    connections_.tidy(now);
}

void Replayer::abort() {
    skip_waiting();
    while (!backlog_.empty()) {
        skip_front(SkipReason::kAborted);
    }
    backlog_.sweep();
    while (!deadlines_.empty()) {
        queries_[deadlines_.front()].record.marks |= kMarkEndedEarly;
        finish(deadlines_.front(), Status::kTimedOut);
        skip_waiting();
    }
}

/// The front of the backlog is not sent any more.
void Replayer::skip_front(SkipReason reason) {
    const Query query = backlog_.front();
    if (!query.is_close()) {
        const std::uint32_t index = take_front(query);
        queries_[index].record.due = started_ ? queries_[index].record.due : 0;
        skip(index, reason);
    }
    backlog_.pop();
    ++departed_;
}

/// What was held back is not sent any more.
void Replayer::skip_waiting() {
    do { // the end of one may make the next of its source ready
        for (; !ready_.empty(); ready_.pop_front()) {
            skip(ready_.front(), SkipReason::kAborted);
        }
        const std::uint32_t pending = dependents_ ? dependents_->take_any() : kNone;
        if (pending == kNone) {
            return;
        }
        skip(pending, SkipReason::kAborted);
    } while (true);
}

// Waking

void Replayer::begin_batch(const ClockPair& pair) {
    now_ = pair.monotonic;
    stamps_.sample(pair);
    statistics_.clock_steps = stamps_.steps();
}

bool Replayer::handle(const EventTag& tag, std::uint32_t events) {
    if (tag.kind == EventKind::kUdp) {
        return udp_[tag.peer]->receive(tag, stamps_);
    }
    return tag.kind != EventKind::kTcp || connections_.handle(tag, events);
}

void Replayer::poll() {
    const Nanoseconds before = clock_.now();
    bool all = true;
    for (const auto& one : udp_) {
        all = one->poll(stamps_) && all;
    }
    polled_until_ = all ? before : polled_until_;
}

void Replayer::count_drops() {
    for (const auto& one : udp_) {
        one->count_drops();
    }
}

void Replayer::woke(Nanoseconds asleep, Nanoseconds timer, Nanoseconds awake) {
    waiter_.woke(asleep, timer, awake);
}

Nanoseconds Replayer::next_wake(Nanoseconds now) {
    Nanoseconds wake =
        std::min(connections_.next_idle(), hedges_ ? hedges_->next() : connections_.next_idle());
    for (const auto& one : udp_) {
        wake = std::min(wake, one->next_wake(now));
    }
    if (!deadlines_.empty()) {
        wake = std::min(wake, queries_[deadlines_.front()].deadline);
    }
    if (!started_) {
        const auto rehearsal = waiter_.next_rehearsal();
        return rehearsal ? std::min(wake, now + *rehearsal) : wake;
    }
    if (backlog_.empty() && ready_.empty()) {
        return wake;
    }
    if (blocked_until_ > now) {
        return std::min(wake, blocked_until_);
    }
    if (options_.fast || !ready_.empty() || waiter_.decide(now, due()) != Waiter::Action::kSleep) {
        return now;
    }
    prepare_front(now);
    return std::min({wake, warm_wake(now), waiter_.wake_time(now, due())});
}

/// While there is time, what the next query needs is opened.
void Replayer::prepare_front(Nanoseconds now) {
    const bool first = statistics_.sent == 0;
    if (due() - now < kPrepareTime || (due() == prepared_ && !first)) {
        return;
    }
    prepared_ = due();
    const Query query = backlog_.front();
    if (query.transport != Transport::kUdp || query.is_close()) {
        return;
    }
    udp_.front()->prepare(query.source_id, query.source.address.family);
    if (first && !queries_.full()) {
        rehearse(query);
    }
}

/// Before the first query, the way that queries take is gone through again and again, so that
/// nothing on it is cold.
void Replayer::rehearse(const Query& query) {
    const std::uint32_t index = queries_.take(query);
    queries_[index].owner = kPrepareOwner;
    matcher_.add(index);
    matcher_.remove(index);
    udp_.front()->rehearse(index);
    queries_.give_back(index);
}

/// Before the first query: several short sleeps at the end of a long one. How late a processor
/// wakes up from those is known, and it is no longer in a deep sleep.
Nanoseconds Replayer::warm_wake(Nanoseconds now) const {
    const Nanoseconds left = due() - now;
    if (statistics_.sent > 0 || left < 2 * kWarmStep) {
        return std::numeric_limits<Nanoseconds>::max();
    }
    return left > kWarmTime ? due() - kWarmTime : now + kWarmStep;
}

} // namespace reprise::querier
