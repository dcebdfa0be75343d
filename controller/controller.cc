#include "controller/controller.hh"

#include "controller/options.hh"
#include "controller/trace_feed.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "core/tree/fanout.hh"
#include "core/tree/host.hh"
#include "core/tree/kernel_host.hh"
#include "core/wire/counts.hh"
#include "core/wire/record.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/settings.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::controller {
namespace {

constexpr Nanoseconds kSlice = 2 * kMillisecond;  ///< longest turn of the reader in the loop
constexpr Nanoseconds kLead = 500 * kMillisecond; ///< from the announcement to the start
/// Of a query of the first window, by a host whose processors are busy.
constexpr Nanoseconds kTakeIn = 4 * kMicrosecond;
constexpr Nanoseconds kTakeInByte = 8; ///< of large ones: a link of 1 Gbit/s
constexpr Nanoseconds kStopPatience = 500 * kMillisecond;
constexpr unsigned kTurn = 64; ///< queries handed out by one reading of the clock
constexpr Nanoseconds kShortWait = kMillisecond;
/// Of the first window, whatever the children take.
constexpr std::uint64_t kMostStaged = 192UL << 20U;
/// On links that are slower than the reader.
constexpr size_t kMostUnsent = 64UL << 20U;
constexpr std::uint64_t kReportRoom = 256UL << 10U;      ///< bytes of controller.json
constexpr std::uint64_t kReportRoomQuerier = 2UL << 10U; ///< what it says of a querier
constexpr std::uint64_t kReportRoomOffset = 64;          ///< and of a host each second
constexpr std::string_view kTroubleHint =
    "what came before is replayed and counted; copy or capture the trace again";
/// Between two looks at the window: long enough for whole blocks, short against the window.
constexpr Nanoseconds kStep = 10 * kMillisecond;

Nanoseconds seconds(double value) { return static_cast<Nanoseconds>(value * 1e9); }

} // namespace

wire::Options querier_setup(const Options& options, const Servers& servers) {
    wire::Options out;
    out.set_server_v4(servers.v4 ? servers.v4->text() : "");
    out.set_server_v6(servers.v6 ? servers.v6->text() : "");
    out.set_authorities_pem(read_authorities(options.replay.tls.ca));
    Settings sent = options.replay; // but for what is the controller's alone, and may be large
    sent.tls.ca.clear();
    sent.skip_sources.clear();
    for (const auto& [key, text] : texts(sent)) {
        (*out.mutable_settings())[key] = text;
    }
    return out;
}

int run_controller(const Options& options) {
    const Servers servers = parse_servers(options.servers, options.server_port);
    wire::Options setup = querier_setup(options, servers); // from files opened before the trace
    ReadAhead feed(std::make_unique<TraceFeed>(options, servers));
    tree::KernelHost host(options.tls); // its files by the rights that are left
    return Controller(options, host, std::move(setup), feed).run();
}

Controller::Controller(const Options& options, tree::Host& host, wire::Options setup,
                       ReadAhead& feed)
    : options_(options), host_(host), setup_(std::move(setup)), feed_(feed),
      report_file_(options.results + "/controller.json", kReportRoom),
      fanout_(host, options.run,
              {.ready = [this] { on_ready(); },
               .credit = [this](const Credit&) { pump_->again_in(0); },
               .abort = [this](const std::string& because) { abort(because); },
               .lost = [this](const tree::Child& child) { on_lost(child); },
               .over = [this] { on_over(); }},
              "the controller"),
      pump_(host.timer(0, [this] { pump(); })),
      progress_(host.timer(kSecond, [this] { progress(); })) {
    host.on_stop([this](const std::string& because) { abort(because); });
}

int Controller::run() {
    pump_->again_in(0);
    host_.run();
    return finish();
}

/// Makes sure that a query is held; false where there is none (yet).
bool Controller::read_next() {
    if (holding_) {
        return true;
    }
    const ReadAhead::Next result = ended_ ? ReadAhead::Next::kEnd : feed_.next(held_);
    holding_ = result == ReadAhead::Next::kQuery;
    ended_ = result == ReadAhead::Next::kEnd;
    return holding_;
}

void Controller::open() {
    if (read_next()) {
        outcome_.start.trace_first = outcome_.start.trace_last = held_.trace_time();
        phase_ = Phase::kConnect;
        for (const auto& peer : tree::parse_peers("--distributor", options_.distributors)) {
            fanout_.add(peer.name, peer.endpoint.text(), host_.connect(peer.endpoint));
        }
    } else if (ended_) {
        host_.stop();
    } else {
        pump_->again_in(kShortWait);
    }
}

void Controller::on_ready() {
    fanout_.setup(setup_);
    spdlog::info("event=ready hosts={} queriers={} credit={}", fanout_.children().size(),
                 tree::queriers_of(fanout_.children()),
                 tree::credit_of(fanout_.children()).records);
    phase_ = Phase::kFill;
    pump_->again_in(0);
}

void Controller::pump() {
    switch (phase_) {
    case Phase::kOpen:
        return open();
    case Phase::kFill:
        return fill();
    case Phase::kRun:
        return hand_out();
    default:
        return;
    }
}

/// Stages the first window in slices, so that heartbeats go on.
void Controller::fill() {
    const Nanoseconds until = host_.clock().now() + kSlice;
    const Nanoseconds last = seconds(options_.replay.window_s);
    Credit room = tree::credit_of(fanout_.children());
    room.bytes = std::min(room.bytes, kMostStaged); // the rest is handed out after the announcement
    while (read_next() && held_.due() <= last &&
           room.covers(
               {.records = staged_count_ + 1, .bytes = staged_.bytes + held_.bytes().size()})) {
        staged_.add(held_.bytes(), fanout_.children());
        ++staged_count_;
        took_held();
        if (staged_count_ % 64 == 0 && host_.clock().now() > until) {
            return pump_->again_in(0);
        }
    }
    if (!holding_ && !ended_) {
        return pump_->again_in(kShortWait);
    }
    start();
}

void Controller::took_held() {
    holding_ = false;
    if (!held_.is_close()) { // which may be the last of a lap, later than the next one's queries
        outcome_.start.trace_last = std::max(outcome_.start.trace_last, held_.trace_time());
    }
}

void Controller::start() {
    // Several round trips and some time for the hosts to take in the first window.
    const Nanoseconds take_in = std::max(static_cast<Nanoseconds>(staged_count_) * kTakeIn,
                                         static_cast<Nanoseconds>(staged_.bytes) * kTakeInByte);
    const Nanoseconds lead = kLead + 8 * tree::longest_round_trip(fanout_.children()) + take_in;
    fanout_.give_first(staged_);
    const ClockPair now = host_.clock().pair();
    outcome_.start.mono = now.monotonic + lead;
    outcome_.start.real = now.realtime + lead;
    fanout_.start(outcome_.start.mono, outcome_.start.real, outcome_.start.trace_first);
    spdlog::info("event=start start_real_ns={} trace_first_ns={} prefilled={}", outcome_.start.real,
                 outcome_.start.trace_first, staged_count_);
    fmt::print("start in_s={:.6f}\n", static_cast<double>(lead) / 1e9);
    std::fflush(stdout);
    phase_ = Phase::kRun;
    pump_->again_in(0);
}

/// Without due times nobody but the clock ends the replay after replay.duration_s.
Nanoseconds Controller::time_left(Nanoseconds now) const {
    const bool limited = options_.replay.fast && options_.replay.duration_s > 0;
    return limited ? outcome_.start.mono + seconds(options_.replay.duration_s) - now : kSecond;
}

void Controller::hand_out() {
    Nanoseconds now = host_.clock().now();
    if (time_left(now) <= 0) {
        outcome_.cut_off = true;
        return at_end();
    }
    const Nanoseconds until = now + kSlice;
    while (phase_ == Phase::kRun && hand_out_some(now)) {
        now = host_.clock().now();
        if (now > until) {
            pump_->again_in(0);
            break;
        }
    }
    fanout_.flush();
    if (phase_ == Phase::kRun && ended_ && !holding_) {
        at_end();
    }
}

/// Hands out a few queries and closes. False: something must be waited for; pump() is called again.
bool Controller::hand_out_some(Nanoseconds now) {
    if (tree::unsent_of(fanout_.children()) > kMostUnsent) {
        pump_->again_in(kStep);
        return false;
    }
    const Nanoseconds reach = now - outcome_.start.mono + seconds(options_.replay.window_s);
    for (unsigned i = 0; i < kTurn; ++i) {
        if (!read_next()) {
            pump_->again_in(kShortWait);
            return false;
        }
        if (held_.due() > reach) {
            pump_->again_in(kStep);
            return false;
        }
        if (!fanout_.offer(held_)) {
            pump_->again_in(std::max<Nanoseconds>(time_left(now), 0)); // or earlier: on_credit
            return false;
        }
        took_held();
    }
    return true;
}

void Controller::at_end() {
    phase_ = Phase::kDrain;
    fanout_.end();
    spdlog::info("event=trace_end read={} handed={}", feed_.state().read,
                 tree::assigned_of(fanout_.children()));
}

void Controller::abort(const std::string& because) {
    if (std::exchange(outcome_.aborted, true)) {
        return;
    }
    outcome_.because.push_back(because);
    spdlog::error("event=abort because=\"{}\"", because);
    fanout_.abort(because);
    if (phase_ < Phase::kRun || tree::all_over(fanout_.children())) {
        host_.stop();
    }
    phase_ = Phase::kOver;
}

void Controller::on_lost(const tree::Child& child) {
    const bool ours = child.lost_because.starts_with("the controller "); // it stood still
    const std::string host = fmt::format("host {} ({})", child.name, child.address);
    const std::string what = ours ? fmt::format("{}, and {} gave up", child.lost_because, host)
                                  : fmt::format("{} lost: {}", host, child.lost_because);
    if (phase_ < Phase::kRun) {
        abort(what + "; is the distributor started, and its certificate of this run?");
    } else {
        outcome_.because.push_back(what);
        pump_->again_in(0); // its queries no longer wait for its credit
    }
}

void Controller::on_over() {
    if (phase_ == Phase::kRun && !outcome_.aborted) {
        outcome_.aborted = true; // what was read and not handed out is skipped
        outcome_.because.emplace_back("every host was lost before the trace ended");
    }
    phase_ = Phase::kOver;
    host_.stop();
}

void Controller::progress() {
    if (outcome_.start.mono == 0) {
        return;
    }
    const Nanoseconds now = host_.clock().now();
    const Nanoseconds elapsed = now - outcome_.start.mono;
    const wire::Status status = tree::status_of(fanout_.children(), now);
    const Counts counts = read_counts(status.counts());
    fmt::print("progress read={} sent={} answered={} timed_out={} failed={} rate={:.0f} lag_us={} "
               "elapsed_s={:.1f}\n",
               feed_.state().read, counts.sent, counts.answered, counts.timed_out,
               counts.send_failed + counts.connection_failed,
               rate_.of(counts.sent, elapsed - status.age_ns()), status.lag_ns() / kMicrosecond,
               static_cast<double>(elapsed) / 1e9);
    std::fflush(stdout);
    const auto played = static_cast<std::uint64_t>(elapsed / kSecond);
    report_file_.grow(kReportRoom + tree::queriers_of(fanout_.children()) * kReportRoomQuerier +
                      fanout_.children().size() * played * kReportRoomOffset);
}

int Controller::finish() {
    feed_.stop(kStopPatience);
    const FeedState feed = feed_.state();
    if (phase_ == Phase::kOpen && !outcome_.aborted) {
        throw Error(feed.error.empty() ? no_queries(options_, feed) : feed.error);
    }
    if (!feed.error.empty()) {
        outcome_.because.push_back(feed.error);
    }
    outcome_.duration = outcome_.start.mono == 0
                            ? 0
                            : std::max<Nanoseconds>(0, host_.clock().now() - outcome_.start.mono);
    const Report report = compile_report(options_, feed, fanout_.children(), outcome_);
    report_file_.write(report.json + "\n");
    for (const std::string& warning : report.warnings) {
        spdlog::warn("event=warning what=\"{}\"", warning);
    }
    const bool clean = report.because.empty();
    fmt::print("done clean={} because={}\n", clean, report.because_text());
    if (clean) {
        return 0;
    }
    Complaint first = complaint(report.because.front());
    if (!feed.trouble.empty() && report.because.front().ends_with(feed.trouble)) {
        first = {.what = report.because.front(), .hint = std::string(kTroubleHint)};
    }
    print_error("reprise-controller", report.because_text(), first);
    return 1;
}

} // namespace reprise::controller
