#include "querier/replayer.hh"

#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/dns_message.hh"
#include "core/query.hh"
#include "core/result_file.hh"
#include "querier/links.hh"
#include "querier/matcher.hh"
#include "querier/poller.hh"
#include "querier/question.hh"
#include "querier/results.hh"
#include "querier/schedule.hh"
#include "querier/slots.hh"
#include "querier/transport.hh"
#include "querier/waiter.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace reprise::querier {
namespace {

constexpr Nanoseconds kBehind = kMillisecond;
/// Between two looks at the sockets, so that sending under load does not let receive buffers
/// overflow.
constexpr int kSendBurst = 128;
/// Between two looks at the schedule, so that a dead server's timeouts do not delay sending.
constexpr int kExpireBurst = 64;
/// Keys of ended queries are remembered for the timeout once more, at least for so long.
constexpr Nanoseconds kShortestLinger = 5 * kSecond;
constexpr Nanoseconds kBusyRetry = 100 * kMicrosecond;
constexpr Nanoseconds kNoRoomRetry = kMillisecond;

Nanoseconds busy_wait_until(Nanoseconds time) {
    Nanoseconds now = SteadyClock::now();
    while (now < time) {
        now = SteadyClock::now();
    }
    return now;
}

} // namespace

Replayer::Replayer(Poller& poller, const ReplayOptions& options, WaiterOptions waiter,
                   Results& results)
    : options_(options), results_(results), slots_(options.credit + options.in_flight),
      waiter_(waiter),
      matcher_(slots_, options.in_flight, std::max(options.timeout, kShortestLinger)),
      descriptors_(options.descriptors),
      udp_(poller, descriptors_, slots_, options.servers, statistics_, *this),
      tcp_(poller, descriptors_, slots_, matcher_, options.servers, options.idle_timeout,
           statistics_, *this) {}

bool Replayer::accept(const Query& query) {
    const std::uint32_t slot = slots_.take(query);
    if (slot == kNone) {
        return false;
    }
    ++statistics_.received;
    schedule_.push(query.due, slot);
    return true;
}

void Replayer::start(Nanoseconds start) {
    base_ = start;
    started_ = true;
}

Nanoseconds Replayer::due(const Schedule::Item& item) const { return item.time + base_; }

Nanoseconds Replayer::lag(Nanoseconds now) const {
    return !started_ || schedule_.empty() ? 0
                                          : std::max<Nanoseconds>(now - due(schedule_.front()), 0);
}

std::uint64_t Replayer::take_departed() { return std::exchange(departed_, 0); }

bool Replayer::quiet(Nanoseconds now, Nanoseconds work) const {
    return !started_ || schedule_.empty() || due(schedule_.front()) - now > work;
}

// Sending

void Replayer::send_due() {
    for (int sent = 0; sent < kSendBurst && started_ && !schedule_.empty(); ++sent) {
        Nanoseconds now = SteadyClock::now();
        const Nanoseconds time = due(schedule_.front());
        if (blocked_until_ > now || too_late(now - time)) {
            return;
        }
        switch (waiter_.decide(now, time)) {
        case Waiter::Action::kSleep:
            return;
        case Waiter::Action::kSpin:
            waiter_.no_lesson();
            now = busy_wait_until(time);
            break;
        case Waiter::Action::kSend:
            break;
        }
        if (!send_front(now, time)) {
            return;
        }
    }
}

bool Replayer::too_late(Nanoseconds late) {
    if (options_.max_lateness <= 0 || late <= options_.max_lateness) {
        return false;
    }
    if (trouble_.empty()) {
        trouble_ = fmt::format("behind schedule by {:.3f} s, over the limit of {:.3f} s; lower the "
                               "rate, add queriers or hosts, or raise --max-lateness-s",
                               static_cast<double>(late) / 1e9,
                               static_cast<double>(options_.max_lateness) / 1e9);
    }
    return true;
}

bool Replayer::send_front(Nanoseconds now, Nanoseconds due) {
    const std::uint32_t index = schedule_.front().slot;
    Slot& slot = slots_[index];
    const Nanoseconds late = now - due;
    slot.record.due = due;
    slot.record.marks |= late > kBehind ? kMarkBehind : std::uint16_t{0};
    const SendResult result =
        in_flight_ < options_.in_flight ? hand_over(index, now) : SendResult::kNoRoom;
    if (result == SendResult::kBusy || result == SendResult::kNoRoom) {
        block(result, now);
        return false;
    }
    schedule_.pop();
    note_departure(late);
    return true;
}

void Replayer::note_departure(Nanoseconds late) {
    ++departed_;
    statistics_.behind_schedule += late > kBehind ? 1 : 0;
    statistics_.max_lateness = std::max(statistics_.max_lateness, late);
}

void Replayer::block(SendResult result, Nanoseconds now) {
    blocked_until_ = now + (result == SendResult::kBusy ? kBusyRetry : kNoRoomRetry);
}

bool Replayer::make_room() { return udp_.evict_idle() || tcp_.evict_idle(); }

SendResult Replayer::hand_over(std::uint32_t index, Nanoseconds now) {
    switch (slots_[index].record.transport) {
    case Transport::kUdp:
        return hand_over_udp(index);
    case Transport::kTcp:
        return hand_over_tcp(index, now);
    default:
        end_unsent(index, SendResult::kFailed);
        return SendResult::kFailed;
    }
}

SendResult Replayer::hand_over_udp(std::uint32_t index) {
    SendResult result = udp_.send(index);
    if (result == SendResult::kNoRoom && make_room()) {
        result = udp_.send(index);
    }
    if (result == SendResult::kDone) {
        waiter_.sent_first(slots_[index].record.send);
        launch(index, slots_[index].record.send);
        on_written(index);
    } else {
        end_unsent(index, result);
    }
    return result;
}

SendResult Replayer::hand_over_tcp(std::uint32_t index, Nanoseconds now) {
    launch(index, now);
    SendResult result = tcp_.submit(index);
    if (result == SendResult::kNoRoom && make_room()) {
        result = tcp_.submit(index);
    }
    if (result != SendResult::kDone) {
        land(index);
        end_unsent(index, result);
    }
    return result;
}

/// The query ends here unless it can be tried again (busy, no room).
void Replayer::end_unsent(std::uint32_t index, SendResult result) {
    if (result == SendResult::kOversize) {
        skip(index, SkipReason::kOversize);
    } else if (result == SendResult::kFailed) {
        warn_once(slots_[index]);
        finish(index, slots_[index].record.transport == Transport::kTcp ? Status::kConnectionFailed
                                                                        : Status::kSendFailed);
    }
}

void Replayer::warn_once(const Slot& slot) {
    if (!std::exchange(warned_unsupported_, true)) {
        spdlog::warn("event=send_failed seq={} transport={} family={} note=\"the first one; later "
                     "ones are only counted\"",
                     slot.record.sequence, transport_name(slot.record.transport), slot.family);
    }
}

void Replayer::launch(std::uint32_t index, Nanoseconds first_action) {
    Slot& slot = slots_[index];
    slot.deadline = first_action + options_.timeout;
    slot.in_flight = true;
    deadlines_.push_back(slots_, index);
    ++in_flight_;
}

void Replayer::land(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.in_flight) {
        slot.in_flight = false;
        deadlines_.remove(slots_, index);
        --in_flight_;
        blocked_until_ = 0;
    }
}

void Replayer::on_written(std::uint32_t index) {
    Slot& slot = slots_[index];
    statistics_.sent += slot.written ? 0 : 1;
    slot.written = true;
    matcher_.add(index);
}

// Ends

void Replayer::on_reply(std::uint32_t owner, std::span<std::uint8_t> reply, Nanoseconds received) {
    const Matcher::Match match = matcher_.match(owner, reply, received);
    switch (match.kind) {
    case Matcher::Kind::kAnswer:
        answer(match.slot, reply, received);
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
    }
}

void Replayer::answer(std::uint32_t index, std::span<std::uint8_t> reply, Nanoseconds received) {
    Slot& slot = slots_[index];
    if (const std::uint16_t id = message_id(slot.bytes()); id != slot.wire_id) {
        reply[0] = static_cast<std::uint8_t>(id >> 8U);
        reply[1] = static_cast<std::uint8_t>(id);
    }
    RqRecord& record = slot.record;
    record.receive = received;
    record.latency = std::max<Nanoseconds>(received - record.send, 0);
    record.reply_size = static_cast<std::uint32_t>(reply.size());
    record.rcode = full_rcode(reply);
    record.flags = parse_header(reply).value_or(DnsHeader{}).flags;
    if (stamps_.stepped() && record.transport == Transport::kUdp) {
        record.marks |= kMarkClockStep;
    }
    statistics_.reply_bytes += reply.size();
    finish(index, Status::kAnswered, reply);
}

void Replayer::on_failed(std::uint32_t slot, Status status) { finish(slot, status); }

void Replayer::finish(std::uint32_t index, Status status, Bytes reply) {
    Slot& slot = slots_[index];
    if (slot.record.transport == Transport::kTcp) {
        tcp_.detach(index);
    } else if (slot.in_flight) {
        udp_.release(slot.place);
    }
    land(index);
    matcher_.end(index, status == Status::kAnswered, SteadyClock::now());
    slot.record.status = status;
    slot.record.send = slot.written ? slot.record.send : 0;
    statistics_.count_end(status);
    results_.write(slot, reply, stamps_.to_realtime(slot.record.receive));
    slots_.give_back(index);
}

void Replayer::skip(std::uint32_t index, SkipReason reason) {
    slots_[index].record.reason = reason;
    finish(index, Status::kSkipped);
}

void Replayer::expire(Nanoseconds now) {
    for (int n = 0; n < kExpireBurst; ++n) {
        const std::uint32_t index = deadlines_.front();
        if (index == kNone || slots_[index].deadline > now) {
            break;
        }
        if (slots_[index].record.transport != Transport::kTcp || !tcp_.connect_timed_out(index)) {
            finish(index, Status::kTimedOut);
        }
    }
    tcp_.close_idle(now);
}

void Replayer::abort() {
    for (; !schedule_.empty(); schedule_.pop()) {
        Slot& slot = slots_[schedule_.front().slot];
        slot.record.due = started_ ? due(schedule_.front()) : 0;
        ++departed_;
        skip(schedule_.front().slot, SkipReason::kAborted);
    }
    while (!deadlines_.empty()) {
        slots_[deadlines_.front()].record.marks |= kMarkEndedEarly;
        finish(deadlines_.front(), Status::kTimedOut);
    }
}

// Waking

void Replayer::begin_batch(const ClockPair& pair) {
    stamps_.sample(pair);
    statistics_.clock_steps = stamps_.steps();
}

void Replayer::handle(const EventTag& tag, std::uint32_t events) {
    if (tag.kind == EventKind::kUdp) {
        udp_.receive(tag, stamps_);
    } else if (tag.kind == EventKind::kTcp) {
        tcp_.handle(tag, events);
    }
}

void Replayer::woke(Nanoseconds asleep, Nanoseconds timer, Nanoseconds awake) {
    waiter_.woke(asleep, timer, awake);
}

Nanoseconds Replayer::next_wake(Nanoseconds now) {
    Nanoseconds wake = std::min(tcp_.next_idle(), std::numeric_limits<Nanoseconds>::max());
    if (!deadlines_.empty()) {
        wake = std::min(wake, slots_[deadlines_.front()].deadline);
    }
    if (!started_) {
        const auto rehearsal = waiter_.next_rehearsal();
        return rehearsal ? std::min(wake, now + *rehearsal) : wake;
    }
    if (schedule_.empty()) {
        return wake;
    }
    const Nanoseconds time = due(schedule_.front());
    const Nanoseconds send = blocked_until_ > now ? blocked_until_
                             : waiter_.decide(now, time) != Waiter::Action::kSleep
                                 ? now
                                 : waiter_.wake_time(now, time);
    return std::min(wake, send);
}

} // namespace reprise::querier
