#include "core/tree/fanout.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/tree/assignment.hh"
#include "core/tree/block_frame.hh"
#include "core/tree/host.hh"
#include "core/wire/counts.hh"
#include "core/wire/credit.hh"
#include "core/wire/frame.hh"
#include "core/wire/record.hh"
#include "core/wire/replay.pb.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::tree {
namespace {

std::string refusal(const wire::Hello& hello, const std::string& run) {
    if (hello.protocol() != kProtocolVersion) {
        return fmt::format("speaks protocol version {}, not {}; install the same release on both",
                           hello.protocol(), kProtocolVersion);
    }
    if (hello.run() != run) {
        return "belongs to another run";
    }
    if (hello.credit_bytes() < kLeastBytes) {
        return fmt::format("takes {} bytes at once, which is less than a block",
                           hello.credit_bytes());
    }
    return hello.queriers() == 0 ? "has no queriers" : "";
}

/// Whether two hosts share one CLOCK_MONOTONIC.
bool same_clock(const wire::Hello& a, const wire::Hello& b) {
    return !a.boot_id().empty() && a.boot_id() == b.boot_id() &&
           a.time_namespace() == b.time_namespace();
}

/// A pause after which children have given up, or nearly: they heard the last heartbeat a moment
/// after it was sent.
constexpr Nanoseconds kLongPause = kParentSilence - kHeartbeat / 2;
/// So long after a pause it is what children are lost for.
constexpr Nanoseconds kAftermath = 2 * kSecond;

/// Sources with higher ids are hashed each time: a peer's odd id must not cost memory.
constexpr std::uint32_t kMostKnown = 1U << 26U;

} // namespace

Fanout::Fanout(Host& host, std::string run, Events events, std::string own_name)
    : clock_(host.clock()), run_(std::move(run)), own_name_(std::move(own_name)),
      events_(std::move(events)), own_(host.facts()),
      heartbeat_(host.timer(kHeartbeat, [this] { heartbeat(); })) {}

Child& Fanout::add(std::string name, std::string address, std::unique_ptr<Link> link) {
    Child& child = *children_.emplace_back(std::make_unique<Child>());
    child.name = std::move(name);
    child.address = std::move(address);
    child.link = std::move(link);
    child.link->set_handler({
        .frame = [this, &child](wire::Frame& frame) { on_frame(child, frame); },
        .down =
            [this, &child](const std::string& reason) {
                if (!child.over()) {
                    lose(child, reason);
                }
            },
    });
    return child;
}

void Fanout::on_frame(Child& child, wire::Frame& frame) {
    switch (frame.body_case()) {
    case wire::Frame::kHello:
        return on_hello(child, frame.hello());
    case wire::Frame::kReply:
        return on_reply(child, frame.reply());
    case wire::Frame::kCredit:
        return on_credit(child,
                         {.records = frame.credit().queries(), .bytes = frame.credit().bytes()});
    case wire::Frame::kStatus:
        child.status = frame.status();
        child.status_time = clock_.now();
        return;
    case wire::Frame::kFinished:
        return on_finished(child, frame.finished());
    case wire::Frame::kAbort:
        if (events_.abort) {
            events_.abort(frame.abort().because());
        }
        return;
    default:
        return lose(child, "sent a message that only a parent sends");
    }
}

void Fanout::on_hello(Child& child, const wire::Hello& hello) {
    const std::string why = refusal(hello, run_);
    if (!why.empty()) {
        return lose(child, why);
    }
    child.hello = hello;
    child.credit = {.records = hello.credit(), .bytes = hello.credit_bytes()};
    child.same_clock = same_clock(own_, hello);
    if (child.name.empty()) {
        child.name = hello.name();
    }
    probe(child);
}

void Fanout::probe(Child& child) {
    wire::Frame frame;
    frame.mutable_probe()->set_sent_mono_ns(clock_.now());
    child.link->send(frame);
}

void Fanout::on_reply(Child& child, const wire::ClockReply& reply) {
    child.clock.add(reply.sent_mono_ns(), reply.child_mono_ns(), clock_.now());
    if (child.ready) {
        return;
    }
    if (child.clock.count() < kProbes) {
        return probe(child);
    }
    child.ready = true;
    ready_if_all();
}

/// Equal names would salt equal hashes and name the same result files.
bool Fanout::names_differ() {
    std::unordered_set<std::string> names;
    for (const auto& child : children_) {
        if (!names.insert(child->name).second) {
            lose(*child, "has the name of another host; names must differ");
            return false;
        }
    }
    return true;
}

void Fanout::ready_if_all() {
    if (std::ranges::all_of(children_, [](const auto& c) { return c->ready; }) && names_differ()) {
        std::vector<Weighted> weights;
        weights.reserve(children_.size());
        for (const auto& child : children_) {
            weights.push_back({child->name, static_cast<double>(child->hello.queriers())});
        }
        assignment_ = std::make_unique<Assignment>(std::move(weights));
        if (events_.ready && !aborted_) {
            events_.ready();
        }
    }
}

void Fanout::on_credit(Child& child, const Credit& credit) {
    child.credit += credit;
    child.uncredited -= credit;
    send_waiting(child);
    if (events_.credit) {
        events_.credit(credit);
    }
}

void Fanout::on_finished(Child& child, const wire::Finished& finished) {
    if (!child.ready) {
        return lose(child, "ended before the start");
    }
    child.finished = true;
    child.reports.assign(finished.reports().begin(), finished.reports().end());
    child.link->close(); // the child waits for this
    drop_waiting(child);
    over_if_all();
}

void Fanout::lose(Child& child, const std::string& because) {
    if (child.over()) {
        return;
    }
    child.lost = true;
    child.lost_because = reason_to_lose(because);
    child.link->close();
    drop_waiting(child);
    spdlog::error("event=child_lost child={} address={} because=\"{}\"", child.name, child.address,
                  child.lost_because);
    if (events_.lost) {
        events_.lost(child);
    }
    over_if_all();
}

/// Stopped or without processor time, this process says nothing, and its children give up: then
/// that is the cause, whatever the link says of its end.
std::string Fanout::reason_to_lose(const std::string& because) {
    const Nanoseconds now = clock_.now();
    note_pause(now);
    if (pause_ == 0 || now - pause_end_ > kAftermath) {
        return because;
    }
    return fmt::format("{} stood still for {:.1f} s (stopped, or without processor time)",
                       own_name_, static_cast<double>(pause_) / double{kSecond});
}

void Fanout::note_pause(Nanoseconds now) {
    const Nanoseconds pause = now - std::exchange(beat_, now);
    if (pause > kLongPause) {
        pause_ = pause;
        pause_end_ = now;
    }
}

bool Fanout::over() const {
    return std::ranges::all_of(children_, [](const auto& c) { return c->over(); });
}

void Fanout::over_if_all() {
    if (!over_told_ && over()) {
        over_told_ = true;
        if (events_.over) {
            events_.over();
        }
    }
}

void Fanout::setup(const wire::Options& options) {
    wire::Frame frame;
    frame.mutable_setup()->set_protocol(kProtocolVersion);
    frame.mutable_setup()->set_run(run_);
    *frame.mutable_setup()->mutable_options() = options;
    for (const auto& child : children_) {
        child->link->send(frame);
    }
}

void Fanout::place_heavy(const std::unordered_map<IpAddress, std::uint64_t>& queries_by_source) {
    assignment_->place_heavy(queries_by_source);
}

Child& Fanout::child_of(const RecordView& query) {
    if (children_.size() == 1) {
        return *children_.front();
    }
    const std::uint32_t id = query.source_id();
    if (id >= known_.size()) {
        if (id >= kMostKnown || children_.size() >= UINT16_MAX) {
            return *children_[assignment_->child_of(query.source())];
        }
        known_.resize(std::max<size_t>(id + 1UL, known_.size() * 2));
    }
    if (known_[id] == 0) {
        known_[id] = static_cast<std::uint16_t>(assignment_->child_of(query.source()) + 1);
    }
    return *children_[known_[id] - 1UL];
}

bool Fanout::offer(const RecordView& query) {
    Child& child = child_of(query);
    if (!child.over() && !child.credit.covers(child.queued + cost_of(query.bytes().size()))) {
        return false;
    }
    give_to(child, query);
    return true;
}

void Fanout::give(const RecordView& query) { give_to(child_of(query), query); }

void Fanout::give_to(Child& child, const RecordView& query) {
    child.assigned += query.is_close() ? 0U : 1U;
    const Credit cost = cost_of(query.bytes().size());
    if (child.over()) {
        dropped_ += cost; // lost with its child: assigned counts it
        return;
    }
    child.uncredited += cost;
    child.queued += cost;
    child.pending.append(query.bytes());
    if (child.pending.full()) {
        close_block(child);
    }
}

void Fanout::discard(Child& child) {
    child.waiting.clear();
    child.pending.clear();
    child.queued = {};
}

/// What waits for a child that is over is lost with it; whoever waited for its credit goes on.
void Fanout::drop_waiting(Child& child) {
    discard(child);
    if (events_.credit) {
        events_.credit(std::exchange(child.uncredited, {}));
    }
}

void Fanout::close_block(Child& child) {
    if (child.pending.count() > 0) {
        child.waiting.push_back(child.pending.take());
        send_waiting(child);
    }
}

void Fanout::send_waiting(Child& child) {
    while (!child.waiting.empty() && child.credit.covers(child.waiting.front().cost)) {
        child.credit -= child.waiting.front().cost;
        child.queued -= child.waiting.front().cost;
        child.link->send(std::move(child.waiting.front()));
        child.waiting.pop_front();
    }
}

void Fanout::flush() {
    for (const auto& child : children_) {
        close_block(*child);
    }
    if (!dropped_.none() && events_.credit) {
        events_.credit(std::exchange(dropped_, {}));
    }
}

void Fanout::start(Nanoseconds start, Nanoseconds start_real, Nanoseconds trace_first) {
    for (const auto& child : children_) {
        wire::Frame frame;
        wire::Start& message = *frame.mutable_start();
        const Nanoseconds offset = child->same_clock ? 0 : child->clock.best().offset;
        message.set_start_mono_ns(start + offset);
        message.set_start_real_ns(start_real);
        message.set_trace_first_ns(trace_first);
        child->link->send(frame);
    }
}

void Fanout::end() {
    flush();
    for (const auto& child : children_) {
        wire::Frame frame;
        frame.mutable_end()->set_queries(child->assigned);
        if (child->waiting.empty()) {
            child->link->send(frame);
        } else {
            // Without records: it goes when the blocks went.
            child->waiting.push_back({.bytes = encode_frame(frame)});
        }
    }
}

void Fanout::abort(const std::string& because) {
    if (std::exchange(aborted_, true)) {
        return;
    }
    wire::Frame frame;
    frame.mutable_abort()->set_because(because);
    for (const auto& child : children_) {
        discard(*child);
        child->link->send(frame);
    }
}

void Fanout::heartbeat() {
    const Nanoseconds now = clock_.now();
    note_pause(now);
    const bool paused = pause_end_ == now; // what children said meanwhile is still to be read
    for (const auto& child : children_) {
        if (child->over()) {
            continue;
        }
        if (!paused && now - child->link->last_heard() > kChildSilence) {
            lose(*child, fmt::format("nothing heard for {} s; is the host up and the link whole?",
                                     kChildSilence / kSecond));
        } else if (child->ready) {
            probe(*child);
        }
    }
}

wire::Status Fanout::status() const {
    wire::Status sum;
    Counts counts;
    const Nanoseconds now = clock_.now();
    std::int64_t queriers = 0;
    Nanoseconds ages = 0;
    for (const auto& child : children_) {
        counts += read_counts(child->status.counts());
        if (child->over() || child->status_time == 0) {
            continue; // its counts do not change any more, or yet
        }
        sum.set_lag_ns(std::max(sum.lag_ns(), child->status.lag_ns()));
        const std::int64_t below = child->hello.queriers();
        queriers += below;
        ages += below * (now - child->status_time + child->status.age_ns());
    }
    set_counts(*sum.mutable_counts(), counts);
    sum.set_age_ns(queriers > 0 ? ages / queriers : 0);
    return sum;
}

std::uint32_t Fanout::queriers() const {
    std::uint32_t sum = 0;
    for (const auto& child : children_) {
        sum += child->hello.queriers();
    }
    return sum;
}

Credit Fanout::credit() const {
    Credit sum;
    for (const auto& child : children_) {
        sum += {.records = child->hello.credit(), .bytes = child->hello.credit_bytes()};
    }
    return sum;
}

size_t Fanout::unsent() const {
    size_t sum = 0;
    for (const auto& child : children_) {
        sum += child->link->unsent();
    }
    return sum;
}

Nanoseconds Fanout::longest_round_trip() const {
    Nanoseconds longest = 0;
    for (const auto& child : children_) {
        longest = std::max(longest, child->clock.best().round_trip);
    }
    return longest;
}

double Fanout::imbalance() const {
    std::vector<std::uint64_t> assigned;
    std::vector<double> weights;
    for (const auto& child : children_) {
        assigned.push_back(child->assigned);
        weights.push_back(child->hello.queriers());
    }
    return tree::imbalance(assigned, weights);
}

} // namespace reprise::tree
