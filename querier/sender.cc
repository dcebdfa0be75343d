#include "querier/sender.hh"

#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/in_flight.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/schedule/waiter.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace reprise::querier {
namespace {

constexpr Nanoseconds kBehind = kMillisecond;
/// Flushes between two looks at the sockets, so that sending under load does not let receive
/// buffers overflow.
constexpr int kFlushesAtOnce = 2;
constexpr unsigned kTakenAtOnce = 64;
constexpr unsigned kEndedAtOnce = 256;
/// Without a descriptor and without anything in flight for so long, nothing will change.
constexpr Nanoseconds kHopeless = 60 * kSecond;
constexpr Nanoseconds kBusyRetry = 100 * kMicrosecond;
constexpr Nanoseconds kNoRoomRetry = kMillisecond;
/// Opening a socket takes half of this.
constexpr Nanoseconds kPrepareTime = 150 * kMicrosecond;
constexpr Owner kPrepareOwner = ~Owner{0};
constexpr Nanoseconds kWarmTime = 20 * kMillisecond;
constexpr Nanoseconds kWarmStep = kMillisecond;

} // namespace

Sender::Sender(const ReplayOptions& options, const ReplayParts& parts, Outbox& outbox,
               InFlight& in_flight, Carriers& carriers, Waiter& waiter)
    : options_(options), clock_(parts.network.clock()), statistics_(parts.statistics),
      queries_(parts.queries), matcher_(parts.matcher), resources_(parts.resources),
      outbox_(outbox), in_flight_(in_flight), carriers_(carriers), waiter_(waiter) {}

void Sender::send_due() {
    Nanoseconds now = clock_.now();
    bool more = !too_early(now);
    for (int n = 0; more && n < kFlushesAtOnce; ++n) {
        taken_ = 0;
        ended_ = 0;
        more = stage_due(now);
        burst_ = burst_ || taken_ > 0 || staged_ > 0;
        if (staged_ == 0) {
            outbox_.flushed(); // what was skipped
            break;
        }
        const Nanoseconds before = clock_.now();
        const bool alone = staged_ == 1;
        flush(before);
        now = clock_.now();
        if (alone) {
            waiter_.handed_over(now - before);
        } else {
            waiter_.no_lesson();
        }
    }
    in_flight_.look(now);
}

bool Sender::stage_due(Nanoseconds& now) {
    while (staged_ < Carrier::kMostStaged && taken_ < kTakenAtOnce && ended_ < kEndedAtOnce) {
        const unsigned before = taken_;
        if ((blocked() && blocked_until_ > now) ||
            !(outbox_.held() == kNone ? stage_front(now) : stage_held(now))) {
            return false;
        }
        if (taken_ != before) {
            now = clock_.now(); // opening a connection takes microseconds
        }
    }
    return true;
}

void Sender::flush(Nanoseconds now) {
    if (std::exchange(staged_, 0) > 0) {
        waiter_.sent_first(now);
    }
    for (const auto& carrier : carriers_.all()) {
        carrier->flush();
    }
    if (outbox_.flushed()) {
        block(SendResult::kBusy, clock_.now());
    }
}

bool Sender::stage_held(Nanoseconds now) {
    const std::uint32_t index = outbox_.held();
    PendingQuery& pending = queries_[index];
    if (!pending.written && over(now)) {
        outbox_.pop_held();
        in_flight_.skip(index, SkipReason::kDuration);
        ++ended_;
        return true;
    }
    if (!options_.fast && !pending.waited && too_late(now - pending.record.due)) {
        return false;
    }
    if (in_flight_.count() >= options_.in_flight) {
        block(SendResult::kNoRoom, now);
        return false;
    }
    note_departure(pending, now);
    if (!hand_over(index, now)) {
        return false;
    }
    outbox_.pop_held();
    return true;
}

bool Sender::stage_front(Nanoseconds& now) {
    if (outbox_.backlog().empty()) {
        return false;
    }
    if (over(now)) {
        skip_front(SkipReason::kDuration);
        ++ended_;
        return true;
    }
    const Nanoseconds due = outbox_.due();
    if (!options_.fast && (too_late(now - due) || !wait_for(due, now))) {
        return false;
    }
    if (outbox_.held() != kNone) {
        return true; // refused by a flush on the way: it comes first
    }
    if (in_flight_.count() >= options_.in_flight ||
        queries_.kept_bytes() + resources_.owed >= resources_.most_kept) {
        block(SendResult::kNoRoom, now);
        return false;
    }
    return launch_front(now);
}

bool Sender::launch_front(Nanoseconds now) {
    if (queries_.full()) {
        trouble_ = "the parent sent more queries than it was granted";
        return false;
    }
    const Query query = outbox_.backlog().front();
    if (query.is_close()) {
        if (Carrier* const carrier = carriers_.of(query.transport); carrier != nullptr) {
            carrier->prepare(query);
        }
        outbox_.drop();
        return true;
    }
    if (outbox_.park(query)) {
        return true;
    }
    const std::uint32_t index = outbox_.take(query);
    note_departure(queries_[index], now);
    if (!hand_over(index, now)) {
        queries_.keep(index);
        outbox_.hold(index);
    }
    return true;
}

bool Sender::hand_over(std::uint32_t index, Nanoseconds now) {
    const SendResult result = in_flight_.submit(index, now);
    switch (result) {
    case SendResult::kBusy:
    case SendResult::kNoRoom:
        block(result, now);
        return false;
    case SendResult::kStaged:
        ++staged_;
        break;
    case SendResult::kTaken:
        ++taken_;
        break;
    default:
        ++ended_;
        return true;
    }
    stuck_since_ = 0;
    return true;
}

/// The front of the backlog is not sent any more.
void Sender::skip_front(SkipReason reason) {
    const Query query = outbox_.backlog().front();
    if (query.is_close()) {
        outbox_.drop();
    } else {
        in_flight_.skip(outbox_.take(query), reason);
    }
}

/// False: it is too early, and there is time to sleep.
bool Sender::wait_for(Nanoseconds time, Nanoseconds& now) {
    switch (waiter_.decide(now, time)) {
    case Waiter::Action::kSleep:
        return false;
    case Waiter::Action::kSpin:
        flush(now);
        waiter_.spun();
        do {
            now = clock_.now();
        } while (now < time - waiter_.handover());
        return true;
    case Waiter::Action::kSend:
        break;
    }
    return true;
}

/// Nothing may be sent yet.
bool Sender::too_early(Nanoseconds now) const {
    const auto start = outbox_.started();
    return !start || (options_.fast && now < *start);
}

/// A replay without due times has come to the end of its time.
bool Sender::over(Nanoseconds now) const {
    return options_.fast && options_.duration > 0 &&
           now - outbox_.started().value_or(now) >= options_.duration;
}

bool Sender::too_late(Nanoseconds late) {
    if (late <= options_.max_lateness) {
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

/// Counts lateness; again when a query that could not be sent is tried again.
void Sender::note_departure(PendingQuery& pending, Nanoseconds now) {
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

void Sender::block(SendResult result, Nanoseconds now) {
    blocked_until_ = now + (result == SendResult::kBusy ? kBusyRetry : kNoRoomRetry);
    landings_ = in_flight_.landings();
    if (result != SendResult::kNoRoom || in_flight_.count() > 0) {
        stuck_since_ = 0;
    } else if (stuck_since_ == 0) {
        stuck_since_ = now;
    } else if (now - stuck_since_ > std::max(kHopeless, options_.timeout) && trouble_.empty()) {
        trouble_ = "every descriptor is an idle connection that only the server may close; add "
                   "queriers, or let the client close (replay.closer = client)";
    }
}

bool Sender::take_pause() { return std::exchange(burst_, false) && options_.fast && blocked(); }

Nanoseconds Sender::next_send(Nanoseconds now) {
    constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
    const auto start = outbox_.started();
    if (!start) {
        const auto rehearsal = waiter_.next_rehearsal();
        return rehearsal ? now + *rehearsal : kNever;
    }
    if (outbox_.backlog().empty() && outbox_.held() == kNone) {
        return kNever;
    }
    if (blocked() && blocked_until_ > now) {
        return blocked_until_;
    }
    if (too_early(now)) {
        return *start;
    }
    if (options_.fast || outbox_.held() != kNone ||
        waiter_.decide(now, outbox_.due()) != Waiter::Action::kSleep) {
        return now;
    }
    prepare_front(now);
    const Nanoseconds due = outbox_.due();
    const Nanoseconds wake = waiter_.wake_time(now, due);
    if (statistics_.sent > 0 || due - now < 2 * kWarmStep) {
        return wake;
    }
    // Before the first query: several short sleeps at the end of a long one. How late a processor
    // wakes up from those is known, and it is no longer in a deep sleep.
    return std::min(wake, due - now > kWarmTime ? due - kWarmTime : now + kWarmStep);
}

/// While there is time, what the next query needs is opened. Before the first query, the way that
/// queries take is gone through again and again, so that nothing on it is cold.
void Sender::prepare_front(Nanoseconds now) {
    const bool first = statistics_.sent == 0;
    const Nanoseconds due = outbox_.due();
    if (due - now < kPrepareTime || (due == prepared_ && !first)) {
        return;
    }
    prepared_ = due;
    const Query query = outbox_.backlog().front();
    Carrier* const carrier = carriers_.of(query.transport);
    if (carrier == nullptr || query.is_close()) {
        return;
    }
    carrier->prepare(query);
    if (first && !queries_.full()) {
        const std::uint32_t index = queries_.take(query);
        queries_[index].owner = kPrepareOwner;
        matcher_.add(index);
        matcher_.remove(index);
        carrier->rehearse(index);
        queries_.give_back(index);
    }
}

void Sender::skip_backlog(SkipReason reason) {
    while (!outbox_.backlog().empty()) {
        skip_front(reason);
    }
    outbox_.flushed();
}

} // namespace reprise::querier
