#include "core/tree/fanout.hh"

#include "core/base/error.hh"
#include "core/tree/host.hh"
#include "core/wire/counts.hh"
#include "core/wire/frame.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::tree {
namespace {

/// Of what ClockOffset::latest() looks at.
constexpr Nanoseconds kLatest = 10 * kSecond;

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

template <typename Sum, typename Value> Sum sum_of(const Children& children, const Value& value) {
    Sum sum{};
    for (const auto& child : children) {
        sum += value(*child);
    }
    return sum;
}

} // namespace

void ClockOffset::add(Nanoseconds sent, Nanoseconds remote, Nanoseconds received) {
    const ClockSample sample{.when = received,
                             .offset = remote - (sent + (received - sent) / 2),
                             .round_trip = received - sent};
    if (count_++ == 0 || (!settled_ && sample.round_trip < best_.round_trip)) {
        best_ = sample;
    }
    if (series_.empty() || sample.when / kSecond != series_.back().when / kSecond) {
        series_.push_back(sample);
    } else if (sample.round_trip < series_.back().round_trip) {
        series_.back() = sample;
    }
}

ClockSample ClockOffset::latest() const {
    if (series_.empty()) {
        return {};
    }
    const Nanoseconds end = series_.back().when;
    const Nanoseconds begin = end - std::min(kLatest, (end - series_.front().when) / 2);
    const auto recent = std::ranges::find_if(
        series_, [begin](const ClockSample& sample) { return sample.when >= begin; });
    return *std::ranges::min_element(recent, series_.end(), {}, &ClockSample::round_trip);
}

std::vector<Peer> parse_peers(std::string_view option, const std::vector<std::string>& texts) {
    std::vector<Peer> peers;
    for (const std::string& text : texts) {
        const size_t equals = text.find('=');
        const bool named = equals != std::string::npos;
        const auto endpoint = Endpoint::parse(named ? text.substr(equals + 1) : text);
        if (!endpoint || endpoint->port == 0) {
            throw UsageError(fmt::format(
                "{} {}: not [NAME=]ADDRESS:PORT, e.g. client1=192.0.2.1:4853", option, text));
        }
        peers.push_back({.name = named ? text.substr(0, equals) : "", .endpoint = *endpoint});
    }
    return peers;
}

void Child::probe(Nanoseconds now) const {
    wire::Frame frame;
    frame.mutable_probe()->set_sent_mono_ns(now);
    link->send(frame);
}

void Child::take(const RecordView& query) {
    const Credit cost = cost_of(query.bytes().size());
    uncredited += cost;
    queued += cost;
    pending.append(query.bytes());
    if (pending.full()) {
        close_block();
    }
}

void Child::close_block() {
    if (pending.count() > 0) {
        waiting.push_back(pending.take());
        send_waiting();
    }
}

void Child::send_waiting() {
    while (!waiting.empty() && credit.covers(waiting.front().cost)) {
        credit -= waiting.front().cost;
        queued -= waiting.front().cost;
        link->send(waiting.front());
        waiting.pop_front();
    }
}

void Child::discard() {
    waiting.clear();
    pending = {};
    queued = {};
}

bool all_over(const Children& children) {
    return std::ranges::all_of(children, [](const auto& child) { return child->over(); });
}

wire::Status status_of(const Children& children, Nanoseconds now) {
    wire::Status sum;
    Counts counts;
    std::int64_t queriers = 0;
    Nanoseconds ages = 0;
    for (const auto& child : children) {
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

std::uint32_t queriers_of(const Children& children) {
    return sum_of<std::uint32_t>(children, [](const Child& one) { return one.hello.queriers(); });
}

Credit credit_of(const Children& children) {
    return sum_of<Credit>(children, [](const Child& one) {
        return Credit{.records = one.hello.credit(), .bytes = one.hello.credit_bytes()};
    });
}

size_t unsent_of(const Children& children) {
    return sum_of<size_t>(children, [](const Child& one) { return one.link->unsent(); });
}

Nanoseconds longest_round_trip(const Children& children) {
    Nanoseconds longest = 0;
    for (const auto& child : children) {
        longest = std::max(longest, child->clock.best().round_trip);
    }
    return longest;
}

std::uint64_t assigned_of(const Children& children) {
    return sum_of<std::uint64_t>(children, [](const Child& one) { return one.assigned; });
}

double imbalance_of(const Children& children) {
    const auto total = static_cast<double>(assigned_of(children));
    const double queriers = queriers_of(children);
    double worst = 0;
    for (const auto& child : children) {
        const double share = static_cast<double>(child->assigned) / total;
        worst = std::max(worst, total > 0 ? share / (child->hello.queriers() / queriers) : 0);
    }
    return worst;
}

void FirstWindow::add(Bytes records, const Children& children) {
    if (pieces.empty() || pieces.back().size() + records.size() > kBlockBytes) {
        pieces.emplace_back().reserve(std::max(records.size(), kBlockBytes));
    }
    pieces.back().append(reinterpret_cast<const char*>(records.data()), records.size());
    bytes += records.size();
    RecordReader reader(records);
    RecordView query;
    while (children.size() > 1 && reader.next(query)) {
        sources[query.source()] += query.is_close() ? 0U : 1U;
    }
}

Fanout::Fanout(Host& host, std::string run, Events events, std::string own_name)
    : clock_(host.clock()), run_(std::move(run)), own_name_(std::move(own_name)),
      events_(std::move(events)), own_(host.facts()),
      heartbeat_(host.timer(kHeartbeat, [this] { heartbeat(); })), beat_(clock_.now(), kLongPause) {
}

Child& Fanout::add(std::string name, std::string address, std::unique_ptr<Link> link) {
    Child& child = *children_.emplace_back(std::make_unique<Child>());
    child.name = std::move(name);
    child.address = std::move(address);
    child.link = std::move(link);
    child.link->set_handler({
        .frame = [this, &child](wire::Frame& frame) { on_frame(child, frame); },
        .down = [this, &child](const std::string& reason) { lose(child, reason); },
    });
    return child;
}

void Fanout::on_frame(Child& child, wire::Frame& frame) {
    switch (frame.body_case()) {
    case wire::Frame::kHello:
        return on_hello(child, frame.hello());
    case wire::Frame::kReply:
        return on_reply(child, frame.reply());
    case wire::Frame::kCredit: {
        const Credit credit{.records = frame.credit().queries(), .bytes = frame.credit().bytes()};
        child.credit += credit;
        child.uncredited -= credit;
        child.send_waiting();
        return events_.credit(credit);
    }
    case wire::Frame::kStatus:
        child.status = frame.status();
        child.status_time = clock_.now();
        return;
    case wire::Frame::kFinished:
        return on_finished(child, frame.finished());
    case wire::Frame::kAbort:
        return events_.abort(frame.abort().because());
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
    child.probe(clock_.now());
}

void Fanout::on_reply(Child& child, const wire::ClockReply& reply) {
    child.clock.add(reply.sent_mono_ns(), reply.child_mono_ns(), clock_.now());
    if (child.ready) {
        return;
    }
    const size_t count = child.clock.count();
    const Nanoseconds took = clock_.now() - child.clock.series().front().when;
    if (count < kFewestProbes || (count < kProbes && took < kProbing)) {
        return child.probe(clock_.now());
    }
    child.ready = true;
    if (std::ranges::all_of(children_, [](const auto& one) { return one->ready; })) {
        all_ready();
    }
}

void Fanout::all_ready() {
    std::unordered_set<std::string> names;
    for (const auto& child : children_) {
        if (!names.insert(child->name).second) { // it salts the hash, and names result files
            return lose(*child, "has the name of another host; names must differ");
        }
        assignment_.add(child->name, child->hello.queriers());
    }
    if (!aborted_) {
        events_.ready();
    }
}

void Fanout::on_finished(Child& child, const wire::Finished& finished) {
    if (!child.ready) {
        return lose(child, "ended before the start");
    }
    child.finished = true;
    child.reports.assign(finished.reports().begin(), finished.reports().end());
    child.link->close(); // the child waits for this
    settle(child);
}

void Fanout::lose(Child& child, const std::string& because) {
    if (child.over()) {
        return;
    }
    child.lost = true;
    // Stopped or without processor time, this process says nothing, and its children give up: then
    // that is the cause, whatever the link says of its end.
    const Nanoseconds now = clock_.now();
    beat_.beat(now);
    const Nanoseconds pause = beat_.pause(now, kAftermath);
    child.lost_because = pause == 0
                             ? because
                             : fmt::format("{} stood still for {:.1f} s (stopped, or "
                                           "without processor time)",
                                           own_name_, static_cast<double>(pause) / double{kSecond});
    child.link->close();
    spdlog::error("event=child_lost child={} address={} because=\"{}\"", child.name, child.address,
                  child.lost_because);
    events_.lost(child);
    settle(child);
}

/// What waits for a child that is over is lost with it; whoever waited for its credit goes on.
void Fanout::settle(Child& child) {
    child.discard();
    events_.credit(std::exchange(child.uncredited, {}));
    if (all_over(children_) && !std::exchange(over_told_, true)) {
        events_.over();
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

std::string Fanout::give_first(FirstWindow& window) {
    assignment_.place_heavy(std::exchange(window.sources, {}));
    std::string trouble;
    for (; !window.pieces.empty(); window.pieces.pop_front()) {
        const std::string found = give(bytes_of(window.pieces.front()));
        trouble = trouble.empty() ? found : trouble;
    }
    window.bytes = 0;
    flush();
    return trouble;
}

Child& Fanout::child_of(const RecordView& query) {
    if (children_.size() == 1) {
        return *children_.front();
    }
    const std::uint32_t id = query.source_id();
    if (id >= known_.size()) {
        if (id >= kMostKnown || children_.size() >= UINT16_MAX) {
            return *children_[assignment_.child_of(query.source())];
        }
        known_.resize(std::max<size_t>(id + 1UL, known_.size() * 2));
    }
    if (known_[id] == 0) {
        known_[id] = static_cast<std::uint16_t>(assignment_.child_of(query.source()) + 1);
    }
    return *children_[known_[id] - 1UL];
}

bool Fanout::offer(const RecordView& query) {
    Child& child = child_of(query);
    if (!child.over() && !child.credit.covers(child.queued + cost_of(query.bytes().size()))) {
        return false;
    }
    give(child, query);
    return true;
}

std::string Fanout::give(Bytes block) {
    RecordReader records(block);
    RecordView query;
    while (records.next(query)) {
        give(child_of(query), query);
    }
    return records.ok() ? ""
                        : fmt::format("corrupt record at byte {} of a block", records.offset());
}

void Fanout::give(Child& child, const RecordView& query) {
    child.assigned += query.is_close() ? 0U : 1U;
    if (child.over()) {
        dropped_ += cost_of(query.bytes().size()); // lost with its child: assigned counts it
    } else {
        child.take(query);
    }
}

void Fanout::flush() {
    for (const auto& child : children_) {
        child->close_block();
    }
    if (!dropped_.none()) {
        events_.credit(std::exchange(dropped_, {}));
    }
}

void Fanout::start(Nanoseconds start, Nanoseconds start_real, Nanoseconds trace_first) {
    for (const auto& child : children_) {
        wire::Frame frame;
        wire::Start& message = *frame.mutable_start();
        const Nanoseconds offset = child->same_clock ? 0 : child->clock.best().offset;
        child->clock.settle();
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
        child->waiting.push_back({.bytes = encode_frame(frame)}); // without records: behind blocks
        child->send_waiting();
    }
}

void Fanout::abort(const std::string& because) {
    if (std::exchange(aborted_, true)) {
        return;
    }
    wire::Frame frame;
    frame.mutable_abort()->set_because(because);
    for (const auto& child : children_) {
        child->discard();
        child->link->send(frame);
    }
}

void Fanout::heartbeat() {
    const Nanoseconds now = clock_.now();
    const bool paused = beat_.beat(now); // what children said meanwhile is still to be read
    for (const auto& child : children_) {
        if (child->over()) {
            continue;
        }
        if (!paused && now - child->link->last_heard() > kChildSilence) {
            lose(*child, fmt::format("nothing heard for {} s; is the host up and the link whole?",
                                     kChildSilence / kSecond));
        } else if (child->ready) {
            child->probe(now);
        }
    }
}

} // namespace reprise::tree
