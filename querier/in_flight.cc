#include "querier/in_flight.hh"

#include "core/dns/message.hh"
#include "core/wire/counts.hh"
#include "core/wire/record.hh"
#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/connection/connection.hh"
#include "querier/results/results.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace reprise::querier {
namespace {

/// A socket that holds data for longer is not waited for: it is being flooded.
constexpr Nanoseconds kLongestUnread = kSecond;
/// Between two looks at the schedule, so that a dead server's timeouts do not delay sending.
constexpr int kExpireBurst = 64;
/// Copies sent in one turn.
constexpr int kHedgesAtOnce = 32;

bool is_truncated(const Reply& reply) {
    return parse_header(reply.bytes).value_or(DnsHeader{}).truncated();
}

void fill_answer(PendingQuery& pending, const Reply& reply, const ReplayParts& parts) {
    if (pending.id != pending.wire_id) {
        store16(reply.bytes.data(), pending.id);
    }
    RqRecord& record = pending.record;
    record.receive = reply.received;
    if (record.receive < record.send) { // a step of the clock that nobody saw
        record.receive = parts.network.clock().now();
        record.marks |= kMarkClockStep;
    }
    record.latency = record.receive - record.send;
    record.reply_size = static_cast<std::uint32_t>(reply.size);
    record.rcode = full_rcode(reply.bytes);
    record.flags = parse_header(reply.bytes).value_or(DnsHeader{}).flags;
    if (parts.stamps.stepped()) {
        record.marks |= kMarkClockStep;
    }
}

} // namespace

Outbox::Outbox(const ReplayOptions& options, PendingQueries& queries, Statistics& statistics)
    : options_(options), queries_(queries), statistics_(statistics), backlog_(options.credit),
      dependents_(queries), keep_messages_(options.answers || options.hedge_after > 0 ||
                                           options.tcp_fallback || options.tcp_after_timeout) {}

void Outbox::refuse(std::uint32_t pending) {
    queries_.keep(pending);
    held_.insert(held_.begin() + refused_++, pending);
}

bool Outbox::flushed() {
    backlog_.sweep();
    return std::exchange(refused_, 0) > 0;
}

void Outbox::end_of(std::uint32_t source) {
    const std::uint32_t next = options_.dependent ? dependents_.end(source) : kNone;
    if (next != kNone) {
        held_.push_back(next);
        ++departed_;
    }
}

std::uint32_t Outbox::take_held() {
    const std::uint32_t pending = held();
    if (pending != kNone) {
        held_.pop_front();
        return pending;
    }
    return dependents_.take_any();
}

bool Outbox::park(const Query& query) {
    if (!options_.dependent || dependents_.start(query.source_id)) {
        return false;
    }
    const std::uint32_t index = pending_front(query);
    queries_.keep(index);
    queries_[index].waited = true;
    queries_[index].record.marks |= kMarkWaited;
    ++statistics_.waited;
    dependents_.park(index);
    backlog_.pop();
    return true;
}

std::uint32_t Outbox::pending_front(const Query& query) {
    const std::uint32_t index = queries_.take(query);
    queries_[index].record.due = options_.fast || !start_ ? 0 : due();
    if (keep_messages_) {
        queries_.keep(index);
    }
    return index;
}

std::uint32_t Outbox::take(const Query& query) {
    const std::uint32_t index = pending_front(query);
    drop();
    return index;
}

void Outbox::drop() {
    backlog_.pop();
    ++departed_;
}

Nanoseconds Outbox::lag(Nanoseconds now) const {
    return !start_ || options_.fast || backlog_.empty() ? 0 : std::max<Nanoseconds>(now - due(), 0);
}

bool Outbox::quiet(Nanoseconds now, Nanoseconds work) const {
    return !start_ || options_.fast || backlog_.empty() || due() - now > work;
}

Credit Outbox::take_departed() {
    return {.records = std::exchange(departed_, 0), .bytes = backlog_.take_freed()};
}

Carriers::Carriers(const ReplayOptions& options, const CarrierParts& parts)
    : queries_(parts.queries) {
    by_transport_.fill(kMost);
    CarrierWish wish{.options = options, .servers = options.servers};
    const auto add = [&](std::unique_ptr<Carrier> carrier, const auto&... transports) {
        ((by_transport_.at(static_cast<size_t>(transports)) = wish.number), ...);
        carriers_.push_back(std::move(carrier));
        ++wish.number;
    };
    add(parts.network.udp_carrier(wish, parts), Transport::kUdp);
    while (wish.number <= options.hedge_peers.size()) {
        wish.servers = options.servers_of(wish.number);
        add(parts.network.udp_carrier(wish, parts));
    }
    add(connection_carrier(wish, parts), Transport::kTcp, Transport::kTls,
        Transport::kStatelessTcp);
}

SendResult Carriers::submit(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    pending.carrier =
        pending.transport == Transport::kUdp ? pending.peer : number_of(pending.transport);
    if (pending.carrier == kMost) {
        return SendResult::kFailed;
    }
    Carrier& carrier = *carriers_[pending.carrier];
    const SendResult result = carrier.submit(index);
    const auto evict = [](const auto& one) { return one->evict(); };
    return result == SendResult::kNoRoom && std::ranges::any_of(carriers_, evict)
               ? carrier.submit(index)
               : result;
}

void Carriers::looked(Nanoseconds time, bool all) {
    for (const auto& one : carriers_) {
        all = one->poll() && all;
    }
    if (all) {
        read_ = time;
        left_since_ = 0;
        return;
    }
    left_since_ = left_since_ == 0 ? time : left_since_;
    if (time - left_since_ > kLongestUnread) {
        read_ = std::max(read_, time - kLongestUnread);
    }
}

InFlight::InFlight(const ReplayParts& parts, const ReplayOptions& options, Results& results,
                   Outbox& outbox, Carriers& carriers)
    : parts_(parts), options_(options), results_(results), outbox_(outbox), carriers_(carriers),
      queries_(parts.queries), statistics_(parts.statistics),
      hedges_(queries_, options_.timeout, options_.hedge_after, options_.hedge_peers) {}

// The way there

SendResult InFlight::hand_over(std::uint32_t index, Nanoseconds now) {
    PendingQuery& pending = queries_[index];
    pending.deadline = now + options_.timeout;
    pending.in_flight = true;
    deadlines_.push_back(queries_, index);
    ++count_;
    if (options_.hedge_after > 0 && pending.peer == 0) {
        hedges_.watch(index);
    }
    const SendResult result = carriers_.submit(index);
    if (result == SendResult::kStaged) {
        pending.staged = true;
    } else if (result != SendResult::kTaken) {
        land(index);
    }
    return result;
}

void InFlight::land(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (std::exchange(pending.in_flight, false)) {
        deadlines_.remove(queries_, index);
        --count_;
        ++landings_;
        if (pending.watched) {
            hedges_.unwatch(index);
        }
    }
}

SendResult InFlight::submit(std::uint32_t index, Nanoseconds now) {
    const SendResult result = hand_over(index, now);
    return result == SendResult::kStaged || result == SendResult::kTaken
               ? result
               : take_back(index, result, now);
}

/// The query was not sent: it ends unless it can be tried again. What waits for a network that
/// takes nothing must not hold up what goes elsewhere.
SendResult InFlight::take_back(std::uint32_t index, SendResult result, Nanoseconds now) {
    const PendingQuery& pending = queries_[index];
    if (result == SendResult::kBusy) {
        Nanoseconds& since = full_since_.at(pending.carrier).at(pending.family() == 4 ? 0 : 1);
        since = since == 0 ? now : since;
        result = now - since > options_.max_lateness / 2 ? SendResult::kFailed : result;
    }
    if (result == SendResult::kOversize) {
        skip(index, SkipReason::kOversize);
    } else if (result == SendResult::kNoAddress) {
        skip(index, SkipReason::kNoAddress);
    } else if (result == SendResult::kFailed || result == SendResult::kNoConnection) {
        if (!std::exchange(warned_, true)) {
            spdlog::warn("event=send_failed seq={} transport={} family={} "
                         "note=\"the first one; later ones are only counted\"",
                         pending.record.sequence, transport_name(pending.transport),
                         pending.family());
        }
        finish(index, result == SendResult::kNoConnection ? Status::kConnectionFailed
                                                          : Status::kSendFailed);
    }
    return result;
}

void InFlight::on_sent(std::uint32_t index, const SendCall& call) {
    PendingQuery& pending = queries_[index];
    parts_.matcher.add(index);
    if (pending.record.send == 0) {
        note_call(pending, call);
    }
    if (std::exchange(pending.staged, false)) {
        pending.deadline = call.before + options_.timeout;
    }
    full_since_.at(pending.carrier).at(pending.family() == 4 ? 0 : 1) = 0;
    if (std::exchange(pending.written, true)) {
        return;
    }
    if (pending.peer != 0) {
        ++statistics_.hedged;
        return;
    }
    const RqRecord& record = pending.record;
    ++statistics_.sent;
    statistics_.send_unsure += (record.marks & kMarkUnsure) != 0 ? 1U : 0U;
    if (options_.late > 0 && !options_.fast && !pending.waited &&
        record.send - record.due > options_.late) {
        ++statistics_.sent_late;
    }
    queries_.let_go(index);
}

void InFlight::on_refused(std::uint32_t index, SendResult result) {
    PendingQuery& pending = queries_[index];
    carriers_[pending.carrier].release(index);
    land(index);
    pending.place = kNone;
    pending.staged = false;
    if (pending.peer != 0) {
        hedges_.cancel(index);
    } else if (take_back(index, result, parts_.network.clock().now()) == SendResult::kBusy) {
        outbox_.refuse(index);
    }
}

// Hedging

void InFlight::hedge(Nanoseconds now) {
    const Nanoseconds read = carriers_.read_until(now);
    for (int n = 0; n < kHedgesAtOnce && hedges_.next() <= read; ++n) {
        const std::uint32_t copy = hedges_.split();
        if (copy == kNone) {
            continue;
        }
        const SendResult result = hand_over(copy, now);
        if (result == SendResult::kStaged) {
            carriers_[queries_[copy].carrier].flush();
        } else if (result != SendResult::kTaken) {
            hedges_.cancel(copy);
        }
    }
}

// Answers

void InFlight::on_reply(Owner owner, const Reply& reply) {
    Matcher::Match match = parts_.matcher.match(owner, reply.bytes, reply.size, now_);
    while (match.kind == Matcher::Kind::kAnswer &&
           reply.received > queries_[match.pending].deadline) {
        time_out(match.pending); // before the reply came
        match = parts_.matcher.match(owner, reply.bytes, reply.size, now_);
    }
    if (match.kind != Matcher::Kind::kAnswer) {
        constexpr std::array kFromLate{&Counts::late, &Counts::duplicate_answers,
                                       &Counts::unmatched, &Counts::malformed};
        ++(statistics_.*kFromLate.at(static_cast<size_t>(match.kind) - 1));
    } else if (!options_.tcp_fallback || !is_truncated(reply) || !fall_back(match.pending, true)) {
        PendingQuery& pending = queries_[match.pending];
        pending.record.marks |= match.trailing ? kMarkTrailing : std::uint16_t{0};
        fill_answer(pending, reply, parts_);
        finish(match.pending, Status::kAnswered, reply.bytes);
    }
}

/// The query goes out again over TCP, with a timeout of its own; false where it did not go over
/// UDP. Not from here: a carrier is at work.
bool InFlight::fall_back(std::uint32_t index, bool answered) {
    PendingQuery& pending = queries_[index];
    if (pending.transport != Transport::kUdp) {
        return false;
    }
    leave(index, answered);
    pending.transport = Transport::kTcp;
    pending.place = kNone;
    pending.waited = true; // its lateness is the server's
    pending.record.marks |= kMarkFallback | (answered ? std::uint16_t{0} : kMarkSilent);
    ++statistics_.tcp_fallbacks;
    outbox_.hold(index);
    return true;
}

// Ends

void InFlight::time_out(std::uint32_t pending) {
    if (!options_.tcp_after_timeout || !fall_back(pending, false)) {
        finish(pending, Status::kTimedOut);
    }
}

void InFlight::on_failed(std::uint32_t pending, Status status) { finish(pending, status); }

void InFlight::skip(std::uint32_t index, SkipReason reason) {
    PendingQuery& pending = queries_[index];
    const bool aborted = reason == SkipReason::kAborted;
    if (pending.written) { // it was to be asked again over TCP
        pending.record.marks |= aborted ? kMarkEndedEarly : std::uint16_t{0};
        return finish(index, aborted ? Status::kTimedOut : Status::kConnectionFailed);
    }
    pending.record.reason = reason;
    finish(index, Status::kSkipped);
}

void InFlight::expire(Nanoseconds now) {
    now_ = now;
    const Nanoseconds read = carriers_.read_until(now);
    for (int n = 0; n < kExpireBurst; ++n) {
        const std::uint32_t index = deadlines_.front();
        if (index == kNone || queries_[index].deadline > read) {
            return;
        }
        if (!carriers_[queries_[index].carrier].expire(index, now)) {
            time_out(index);
        }
    }
}

Nanoseconds InFlight::next_wake() const {
    return deadlines_.empty() ? hedges_.next()
                              : std::min(hedges_.next(), queries_[deadlines_.front()].deadline);
}

/// The query leaves its carrier.
void InFlight::leave(std::uint32_t index, bool answered) {
    if (queries_[index].in_flight) {
        carriers_[queries_[index].carrier].release(index);
    }
    land(index);
    parts_.matcher.end(index, answered, now_);
}

void InFlight::finish(std::uint32_t index, Status status, Bytes reply) {
    leave(index, status == Status::kAnswered);
    PendingQuery& pending = queries_[index];
    std::optional<HedgeRow> row;
    if (const auto end = pending.pair == kNone ? status : hedges_.settle(index, status, row)) {
        pending.record.status = *end;
        pending.record.send = pending.written ? pending.record.send : 0;
        statistics_.reply_bytes += pending.record.reply_size;
        statistics_.count_end(*end);
        results_.write(pending, reply, parts_.stamps.to_realtime(pending.record.receive));
        outbox_.end_of(pending.record.source);
    }
    queries_.give_back(index);
    if (row) {
        statistics_.hedges_won += row->won ? 1U : 0U;
        statistics_.sent += row->sent[0] == 0 && row->sent[1] != 0 ? 1U : 0U;
        results_.write_hedge(*row);
    }
}

} // namespace reprise::querier
