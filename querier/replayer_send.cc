// The sending half of the Replayer: from the backlog to the transports.
#include "core/base/clock.hh"
#include "core/wire/query.hh"
#include "core/wire/result_file.hh"
#include "querier/replayer.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/links.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/schedule/waiter.hh"
#include "querier/sockets/transport.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace reprise::querier {
namespace {

constexpr Nanoseconds kBehind = kMillisecond;
/// Flushes between two looks at the sockets, so that sending under load does not let receive
/// buffers overflow.
constexpr int kFlushesAtOnce = 2;
constexpr unsigned kConnectionsAtOnce = 64;
constexpr unsigned kSkipsAtOnce = 256;
/// Without a descriptor and without anything in flight for so long, nothing will change.
constexpr Nanoseconds kHopeless = 60 * kSecond;
constexpr Nanoseconds kBusyRetry = 100 * kMicrosecond;
constexpr Nanoseconds kNoRoomRetry = kMillisecond;
/// Longer than any queue of an interface takes to empty; else half the lateness allowed.
constexpr Nanoseconds kFullPatience = 500 * kMillisecond;
/// Bytes of messages kept for queries that wait for an answer (TCP, TLS, --answers, hedging), and
/// of those that kernel and server have not taken.
constexpr size_t kMostKept = 128UL << 20U;
/// Copies sent in one turn.
constexpr int kHedgesAtOnce = 32;

} // namespace

Nanoseconds Replayer::busy_wait_until(Nanoseconds time) const {
    Nanoseconds now = clock_.now();
    while (now < time) {
        now = clock_.now();
    }
    return now;
}

void Replayer::send_due() {
    Nanoseconds now = clock_.now();
    bool more = started_;
    for (int n = 0; more && n < kFlushesAtOnce; ++n) {
        to_connections_ = 0;
        skipped_ = 0;
        more = stage_due(now);
        if (staged_ == 0) {
            backlog_.sweep(); // of what was skipped
            burst_ = burst_ || to_connections_ > 0;
            break;
        }
        const Nanoseconds before = clock_.now();
        const bool alone = staged_ == 1;
        flush();
        burst_ = true;
        now = clock_.now();
        if (alone) {
            waiter_.handed_over(now - before);
        } else {
            waiter_.no_lesson();
        }
    }
    now_ = now;
}

bool Replayer::stage_due(Nanoseconds& now) {
    while (staged_ < UdpTransport::kMostStaged && to_connections_ < kConnectionsAtOnce &&
           skipped_ < kSkipsAtOnce) {
        const unsigned before = to_connections_;
        if (blocked_until_ > now || !(ready_.empty() ? stage_front(now) : stage_ready(now))) {
            return false;
        }
        if (to_connections_ != before) {
            now = clock_.now(); // opening a connection takes microseconds
        }
    }
    return true;
}

void Replayer::flush() {
    for (const auto& one : udp_) {
        one->flush();
    }
    staged_ = 0;
    // What the kernel had no room for goes before what is younger.
    ready_.insert(ready_.begin(), refused_.begin(), refused_.end());
    refused_.clear();
    backlog_.sweep();
}

/// A query that was held back: it is sent before anything else.
bool Replayer::stage_ready(Nanoseconds now) {
    const std::uint32_t index = ready_.front();
    const PendingQuery& pending = queries_[index];
    if (!pending.written && over(now)) {
        ready_.pop_front();
        skip(index, SkipReason::kDuration);
        ++skipped_;
        return true;
    }
    if (!options_.fast && !pending.waited && too_late(now - pending.record.due)) {
        return false;
    }
    if (in_flight_ >= options_.in_flight) {
        block(SendResult::kNoRoom, now);
        return false;
    }
    note_departure(queries_[index], now);
    const SendResult result = hand_over(index, now);
    if (result == SendResult::kBusy || result == SendResult::kNoRoom) {
        block(result, now);
        return false;
    }
    ready_.pop_front();
    return true;
}

bool Replayer::stage_front(Nanoseconds& now) {
    if (backlog_.empty()) {
        return false;
    }
    if (over(now)) {
        skip_front(SkipReason::kDuration);
        ++skipped_;
        return true;
    }
    if (!options_.fast && (too_late(now - due()) || !wait_for(due(), now))) {
        return false;
    }
    if (!ready_.empty()) {
        return true; // refused by a flush on the way: it comes first
    }
    if (in_flight_ >= options_.in_flight || !room_to_keep()) {
        block(SendResult::kNoRoom, now);
        return false;
    }
    return launch_front(now);
}

/// Whether one more message may be kept while its query waits for an answer. What was held back is
/// kept already, and goes all the same.
bool Replayer::room_to_keep() {
    const size_t most = hedges_ ? kMostKept / 2 : kMostKept; // copies for peers are kept as well
    const auto room = [&] { return queries_.kept_bytes() + connections_.owed() < most; };
    // A server that reads nothing: its connections hold on to what they owe it.
    return room() || (queries_.kept_bytes() < most / 2 && connections_.evict_idle() && room());
}

/// False: it is too early, and there is time to sleep.
bool Replayer::wait_for(Nanoseconds time, Nanoseconds& now) {
    switch (waiter_.decide(now, time)) {
    case Waiter::Action::kSleep:
        return false;
    case Waiter::Action::kSpin:
        flush();
        waiter_.spun();
        now = busy_wait_until(time - waiter_.handover());
        return true;
    case Waiter::Action::kSend:
        break;
    }
    return true;
}

bool Replayer::too_late(Nanoseconds late) {
    if (options_.max_lateness <= 0 || late <= options_.max_lateness) {
        return false;
    }
    if (trouble_.empty()) {
        trouble_ = fmt::format("behind schedule by {:.3f} s, over the limit of {:.3f} s; lower the "
                               "rate, add queriers or hosts, or raise replay.max_lateness_s",
                               static_cast<double>(late) / 1e9,
                               static_cast<double>(options_.max_lateness) / 1e9);
    }
    return true;
}

std::uint32_t Replayer::take_front(const Query& query) {
    const std::uint32_t index = queries_.take(query);
    queries_[index].record.due = options_.fast ? 0 : due();
    if (keep_messages_ || query.transport != Transport::kUdp) {
        queries_.keep(index);
    }
    return index;
}

bool Replayer::launch_front(Nanoseconds now) {
    if (queries_.full()) {
        trouble_ = "the parent sent more queries than it was granted";
        return false;
    }
    const Query query = backlog_.front();
    if (take_marker(query)) {
        return true;
    }
    if (dependents_ && park_behind(query)) {
        return true;
    }
    const std::uint32_t index = take_front(query);
    note_departure(queries_[index], now);
    const SendResult result = hand_over(index, now);
    if (result == SendResult::kBusy || result == SendResult::kNoRoom) {
        queries_.keep(index);
        ready_.push_back(index);
        block(result, now);
    }
    backlog_.pop();
    ++departed_;
    return true;
}

/// True: it is no query; the trace's client closed its connection.
bool Replayer::take_marker(const Query& query) {
    if (!query.is_close()) {
        return false;
    }
    connections_.close_traced(query);
    backlog_.pop();
    ++departed_;
    return true;
}

/// True: the query waits for the one before of its source. Its place is the parent's only when it
/// is sent, so that what waits stays bounded.
bool Replayer::park_behind(const Query& query) {
    if (!dependents_->busy(query.source_id)) {
        dependents_->start(query.source_id);
        return false;
    }
    const std::uint32_t index = take_front(query);
    PendingQuery& pending = queries_[index];
    queries_.keep(index);
    pending.waited = true;
    pending.record.marks |= kMarkWaited;
    ++statistics_.waited;
    dependents_->park(index);
    backlog_.pop();
    return true;
}

/// Counts lateness; again when a query that could not be sent is tried again.
void Replayer::note_departure(PendingQuery& pending, Nanoseconds now) {
    if (options_.fast || pending.waited) {
        return;
    }
    const Nanoseconds late = now - pending.record.due;
    if (late > kBehind && (pending.record.marks & kMarkBehind) == 0) {
        pending.record.marks |= kMarkBehind;
        ++statistics_.behind_schedule;
    }
    statistics_.max_lateness = std::max(statistics_.max_lateness, late);
}

/// It was sent for the first time.
void Replayer::note_sent(const PendingQuery& pending) {
    const RqRecord& record = pending.record;
    if (options_.late > 0 && !options_.fast && !pending.waited &&
        record.send - record.due > options_.late) {
        ++statistics_.sent_late;
    }
}

/// A replay without due times has come to the end of its time.
bool Replayer::over(Nanoseconds now) const {
    return options_.fast && options_.duration > 0 && now - base_ >= options_.duration;
}

void Replayer::block(SendResult result, Nanoseconds now) {
    blocked_until_ = now + (result == SendResult::kBusy ? kBusyRetry : kNoRoomRetry);
    if (result != SendResult::kNoRoom || in_flight_ > 0) {
        stuck_since_ = 0;
    } else if (stuck_since_ == 0) {
        stuck_since_ = now;
    } else if (now - stuck_since_ > std::max(kHopeless, options_.timeout) && trouble_.empty()) {
        trouble_ = "every descriptor is an idle connection that only the server may close; add "
                   "queriers, or let the client close (replay.closer = client)";
    }
}

bool Replayer::make_room() {
    return std::ranges::any_of(udp_, [](const auto& one) { return one->evict_idle(); }) ||
           connections_.evict_idle();
}

SendResult Replayer::hand_over(std::uint32_t index, Nanoseconds now) {
    switch (queries_[index].carrier) {
    case Transport::kUdp:
        return hand_over_udp(index, now);
    case Transport::kTcp:
    case Transport::kTls:
    case Transport::kStatelessTcp:
        return hand_over_stream(index, now);
    default:
        end_unsent(index, SendResult::kFailed);
        return SendResult::kFailed;
    }
}

SendResult Replayer::hand_over_udp(std::uint32_t index, Nanoseconds now) {
    UdpTransport& udp = *udp_[queries_[index].peer];
    SendResult result = udp.stage(index);
    if (result == SendResult::kNoRoom && make_room()) {
        result = udp.stage(index);
    }
    if (result == SendResult::kBusy && stays_full(queries_[index], now)) {
        result = SendResult::kFailed;
    }
    if (result == SendResult::kDone) {
        ++staged_;
        launch(index, now);
    } else {
        end_unsent(index, result);
    }
    return result;
}

SendResult Replayer::hand_over_stream(std::uint32_t index, Nanoseconds now) {
    ++to_connections_;
    launch(index, now);
    SendResult result = connections_.submit(index);
    if (result == SendResult::kNoRoom && make_room()) {
        result = connections_.submit(index);
    }
    if (result == SendResult::kDone) {
        stuck_since_ = 0;
    } else {
        land(index);
        end_unsent(index, result);
    }
    return result;
}

/// The query ends here unless it can be tried again (busy, no room).
void Replayer::end_unsent(std::uint32_t index, SendResult result) {
    switch (result) {
    case SendResult::kOversize:
        return skip(index, SkipReason::kOversize);
    case SendResult::kNoAddress:
        return skip(index, SkipReason::kNoAddress);
    case SendResult::kFailed:
        warn_once(queries_[index]);
        return finish(index, is_stream(queries_[index].carrier) ? Status::kConnectionFailed
                                                                : Status::kSendFailed);
    default:
        return;
    }
}

void Replayer::warn_once(const PendingQuery& pending) {
    if (!std::exchange(warned_unsupported_, true)) {
        spdlog::warn("event=send_failed seq={} transport={} family={} note=\"the first one; later "
                     "ones are only counted\"",
                     pending.record.sequence, transport_name(pending.carrier), pending.family());
    }
}

void Replayer::launch(std::uint32_t index, Nanoseconds first_action) {
    PendingQuery& pending = queries_[index];
    pending.deadline = first_action + options_.timeout;
    pending.in_flight = true;
    deadlines_.push_back(queries_, index);
    ++in_flight_;
}

void Replayer::land(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (pending.in_flight) {
        pending.in_flight = false;
        deadlines_.remove(queries_, index);
        --in_flight_;
        blocked_until_ = 0;
    }
}

// What the transports say

void Replayer::on_sent(std::uint32_t index, const SendCall& call) {
    PendingQuery& pending = queries_[index];
    waiter_.sent_first(call.before);
    note_call(pending, call);
    pending.deadline = call.before + options_.timeout;
    pending.written = true;
    full_since(pending) = 0;
    matcher_.add(index);
    if (pending.peer == 0) {
        ++statistics_.sent;
        statistics_.send_unsure += call.unsure() ? 1U : 0U;
        note_sent(pending);
        queries_.let_go(index);
        if (hedges_) {
            hedges_->watch(index);
        }
    } else {
        ++statistics_.hedged;
    }
}

void Replayer::on_refused(std::uint32_t index, SendResult result) {
    land(index);
    queries_[index].place = kNone;
    if (queries_[index].peer != 0) {
        return drop_copy(index);
    }
    const Nanoseconds now = clock_.now();
    if (result == SendResult::kBusy && !stays_full(queries_[index], now)) {
        queries_.keep(index);
        refused_.push_back(index);
        block(result, now);
    } else {
        end_unsent(index, result == SendResult::kBusy ? SendResult::kFailed : result);
    }
}

/// What waits for a network that takes nothing must not hold up what goes elsewhere.
bool Replayer::stays_full(const PendingQuery& pending, Nanoseconds now) {
    Nanoseconds& since = full_since(pending);
    since = since == 0 ? now : since;
    return now - since > (options_.max_lateness > 0 ? options_.max_lateness / 2 : kFullPatience);
}

void Replayer::on_written(std::uint32_t index) {
    PendingQuery& pending = queries_[index];
    if (!std::exchange(pending.written, true)) {
        ++statistics_.sent;
        statistics_.send_unsure += (pending.record.marks & kMarkUnsure) != 0 ? 1U : 0U;
        note_sent(pending);
    }
    matcher_.add(index);
}

// Hedging

void Replayer::hedge(Nanoseconds now) {
    for (int n = 0; hedges_ && n < kHedgesAtOnce && hedges_->next() <= now; ++n) {
        const std::uint32_t copy = hedges_->split();
        if (copy == kNone) {
            continue;
        }
        UdpTransport& udp = *udp_[queries_[copy].peer];
        SendResult result = udp.stage(copy);
        if (result == SendResult::kNoRoom && make_room()) {
            result = udp.stage(copy);
        }
        if (result != SendResult::kDone) {
            drop_copy(copy);
            continue;
        }
        launch(copy, now);
        udp.flush();
    }
}

/// A copy that could not be sent: the original goes on alone.
void Replayer::drop_copy(std::uint32_t index) {
    hedges_->cancel(index);
    queries_.give_back(index);
}

void Replayer::write_hedges() {
    HedgeRow row;
    while (hedges_ && hedges_->take_row(row)) {
        statistics_.hedges_won += row.won ? 1 : 0;
        results_.write_hedge(row);
    }
}

} // namespace reprise::querier
