#include "querier/process.hh"

#include "core/base/error.hh"
#include "core/base/host.hh"
#include "core/base/log.hh"
#include "core/base/signals.hh"
#include "core/wire/counts.hh"
#include "core/wire/frame.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/replayer.hh"
#include "querier/results/results.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <utility>

namespace reprise::querier {
namespace {

constexpr Nanoseconds kReportEvery = 400 * kMillisecond;
/// What departed and is worth a message of its own.
constexpr Credit kCreditBatch{.records = 8192, .bytes = 10UL << 20U};
/// Writing a buffer of records takes about 100 us; only when nothing is due for so long.
constexpr Nanoseconds kFlushTime = kMillisecond;
constexpr size_t kFlushRecords = 1024;
/// Also where something is always due: a querier that is killed loses no more than this.
constexpr Nanoseconds kFlushAtLeast = 800 * kMillisecond;
constexpr int kFramesAtOnce = 4;
constexpr int kLastWordsMs = 1000;
/// Sleeps shorter than this need no eye on the descriptors.
constexpr Nanoseconds kLongestNap = 300 * kMicrosecond;
/// With replay.fast, after a burst.
constexpr Nanoseconds kPause = 50 * kMicrosecond;
/// The descriptors are looked at this often all the same.
constexpr Nanoseconds kLongestUnseen = 300 * kMicrosecond;

wire::Frame hello(const QueryOptions& options, const Credit& credit) {
    wire::Frame frame;
    wire::Hello& hello = *frame.mutable_hello();
    hello.set_protocol(kProtocolVersion);
    hello.set_run(options.run);
    hello.set_name(fmt::format("{}/{}", options.name, options.index));
    hello.set_boot_id(boot_id());
    hello.set_time_namespace(time_namespace());
    hello.set_queriers(1);
    hello.set_credit(credit.records);
    hello.set_credit_bytes(credit.bytes);
    return frame;
}

/// Why a run that came to its end is not clean, or empty. `handed`: queries, by the parent.
std::string reason_at_end(const Statistics& statistics, std::uint64_t handed) {
    if (statistics.received != handed) {
        return fmt::format("received {} of {} queries", statistics.received, handed);
    }
    if (statistics.ended() != statistics.received) {
        return fmt::format("{} queries ended of {}", statistics.ended(), statistics.received);
    }
    if (statistics.receive_overflows > 0) {
        return fmt::format(
            "{} replies were dropped because receive buffers were full; add queriers",
            statistics.receive_overflows);
    }
    return "";
}

class Process {
public:
    /// `link` and `network` must outlive it.
    Process(QueryOptions options, ControlLink& link, Network& network)
        : options_(std::move(options)), link_(link), network_(network), clock_(network.clock()) {}

    /// Exit status: 0 clean, 1 not.
    int run() {
        try {
            if (!options_.failure.empty()) {
                throw Error(options_.failure);
            }
            link_.send(hello(options_, replay_.credit));
            while (!done_) {
                loop_once();
            }
        } catch (const std::exception& error) {
            stop(error.what(), true);
        }
        finish();
        return because_.empty() ? 0 : 1;
    }

private:
    /// One round: send what is due, do what can wait a little, sleep, send what is due, take in
    /// what came.
    void loop_once() {
        const Nanoseconds now = clock_.now();
        if (replayer_) {
            replayer_->sender().send_due();
            replayer_->expire(now);
        }
        take_in();
        report(now);
        check_end();
        if (done_) {
            return;
        }
        const Nanoseconds asleep = clock_.now();
        Nanoseconds wake =
            replayer_ ? replayer_->next_wake(asleep) : std::numeric_limits<Nanoseconds>::max();
        wake = std::min({wake, next_report_, asleep + kParentSilence});
        wait_and_handle(asleep, taking_in() || more_frames_ ? asleep : wake);
        check_parent(clock_.now());
    }

    void wait_and_handle(Nanoseconds now, Nanoseconds wake) {
        if (replayer_ && wake > now && wake - now < kLongestNap && replayer_->may_nap()) {
            // Sleeps through whatever arrives: UDP answers carry the kernel's stamps, so that they
            // may be fetched a little later, many at once, and a busy querier wakes once a query
            // instead of twice.
            network_.sleep_until(wake);
            const Nanoseconds awake = clock_.now();
            replayer_->waiter().woke(now, wake, awake);
            replayer_->sender().send_due();
            if (awake - looked_ > kLongestUnseen) {
                look_and_handle(awake, awake);
            }
        } else if (replayer_ && wake > now && replayer_->sender().take_pause()) {
            network_.sleep_until(now + kPause);
            const Nanoseconds awake = clock_.now();
            look_and_handle(awake, awake);
        } else {
            look_and_handle(now, wake);
        }
    }

    void look_and_handle(Nanoseconds now, Nanoseconds wake) {
        const auto events = network_.wait(now, wake);
        looked_ = clock_.now();
        if (replayer_) {
            if (network_.timer_fired()) {
                replayer_->waiter().woke(now, wake, looked_);
            } else if (wake > now) {
                replayer_->waiter().no_lesson();
            }
            replayer_->sender().send_due();
        }
        if (replayer_ && !events.empty()) {
            replayer_->begin_batch(clock_.pair());
        }
        const bool all = handle_events(events);
        if (replayer_) {
            replayer_->carriers().looked(network_.timer_fired() ? std::max(now, wake) : now, all);
        }
    }

    /// False: there may be more to read.
    bool handle_events(std::span<const epoll_event> events) {
        bool all = events.size() < Network::kMostEvents;
        for (const epoll_event& event : events) {
            const EventTag tag = EventTag::unpack(event.data.u64);
            if (tag.kind == EventKind::kControl) {
                receive();
            } else {
                all = replayer_->carriers()[tag.carrier].handle(tag, event.events) && all;
                if (!replay_.fast) {
                    replayer_->sender().send_due(); // receiving must never delay sending
                }
            }
        }
        return all;
    }

    // The parent

    void receive() {
        link_.flush(0);
        if (more_frames_ || taking_in()) {
            return; // what was read before comes first
        }
        const auto bytes = link_.receive();
        if (!bytes) {
            stop("the distributor closed its end", false);
        } else if (!bytes->empty()) {
            reader_.feed(*bytes);
            last_heard_ = clock_.now();
            more_frames_ = true;
        }
    }

    /// A block is not used up yet.
    bool taking_in() const { return replayer_ && replayer_->outbox().backlog().busy(); }

    void take_in() {
        for (int n = 0; n < kFramesAtOnce && !done_; ++n) {
            if (taking_in()) {
                if (const std::string error = replayer_->outbox().backlog().step();
                    !error.empty()) {
                    stop(error, true);
                }
                continue;
            }
            wire::Frame frame;
            const FrameReader::Result result =
                more_frames_ ? reader_.next(frame) : FrameReader::Result::kNeedMore;
            more_frames_ = result == FrameReader::Result::kFrame;
            if (result == FrameReader::Result::kNeedMore) {
                return;
            }
            if (result != FrameReader::Result::kFrame) {
                stop("a frame from the distributor is corrupt or too large", true);
                return;
            }
            handle_frame(frame);
        }
    }

    void handle_frame(wire::Frame& frame) {
        switch (frame.body_case()) {
        case wire::Frame::kSetup:
            return on_setup(frame.setup());
        case wire::Frame::kProbe: {
            wire::Frame answer;
            answer.mutable_reply()->set_sent_mono_ns(frame.probe().sent_mono_ns());
            answer.mutable_reply()->set_child_mono_ns(clock_.now());
            return link_.send(answer);
        }
        case wire::Frame::kStart:
            return on_start(frame.start());
        case wire::Frame::kBlock:
            if (!replayer_) {
                return stop("the distributor sent queries before Setup", true);
            }
            return replayer_->outbox().backlog().begin(
                std::move(*frame.mutable_block()->mutable_records()));
        case wire::Frame::kEnd:
            trace_ended_ = true;
            handed_ = frame.end().queries();
            return;
        case wire::Frame::kAbort:
            return stop(frame.abort().because().empty() ? "stopped by the distributor"
                                                        : frame.abort().because(),
                        false);
        default:
            return stop("a frame from the distributor is not for a querier", true);
        }
    }

    void on_setup(const wire::Setup& setup) {
        std::string error;
        if (setup.protocol() != kProtocolVersion || setup.run() != options_.run) {
            error =
                fmt::format("the distributor is of run {} and protocol {}, not of run {} and {}",
                            setup.run(), setup.protocol(), options_.run, kProtocolVersion);
        }
        try {
            replay_ = replay_options(setup.options());
        } catch (const UsageError& wrong) {
            error = error.empty() ? wrong.what() : error;
        }
        replay_.descriptors = options_.descriptors;
        replay_.prefixes = options_.prefixes;
        if (replay_.sources == SourceMode::kMapped && replay_.prefixes.empty()) {
            error = "source mode mapped needs --source-prefix at the distributor";
        }
        if (!error.empty() || replayer_) {
            stop(error.empty() ? "the distributor sent Setup twice" : error, true);
            return;
        }
        replayer_ = std::make_unique<Replayer>(network_, replay_, results_);
        if (const std::string warning = replay_.realtime ? run_first() : ""; !warning.empty()) {
            replayer_->warn(warning);
        }
    }

    void on_start(const wire::Start& start) {
        if (!replayer_ || results_.is_open()) {
            stop("the distributor sent Start out of turn", true);
            return;
        }
        open_results(start);
        results_.flush(expected());
        replayer_->begin_batch(clock_.pair());
        replayer_->outbox().start(start.start_mono_ns());
    }

    void open_results(const wire::Start& start) {
        results_.open(options_.results,
                      {.run = options_.run,
                       .host = options_.name,
                       .querier = options_.index,
                       .start_mono = start.start_mono_ns(),
                       .start_real = start.start_real_ns(),
                       .trace_first = start.trace_first_ns()},
                      replay_.answers);
    }

    void check_parent(Nanoseconds now) {
        if (noted_signal() != 0) {
            stop("the querier was terminated", true);
        }
        if (done_ || !replayer_ || now - last_heard_ <= kParentSilence) {
            return;
        }
        if (more_frames_ || taking_in()) {
            return; // its words are being taken in; what it says now cannot be read before
        }
        receive(); // after a pause of our own the parent's words may be waiting
        if (!done_ && clock_.now() - last_heard_ > kParentSilence) {
            stop("the distributor was silent for 1.8 s", true);
        }
    }

    // Reporting and the end

    void report(Nanoseconds now) {
        const bool time = now >= next_report_;
        if (time) {
            next_report_ = now + kReportEvery;
        }
        if (!replayer_) {
            return;
        }
        Outbox& outbox = replayer_->outbox();
        credit_ += outbox.take_departed();
        if (!credit_.none() && (time || outbox.idle() || credit_.records >= kCreditBatch.records ||
                                credit_.bytes >= kCreditBatch.bytes)) {
            link_.send(frame_of(std::exchange(credit_, {})));
        }
        if (time) {
            wire::Frame frame;
            set_counts(*frame.mutable_status()->mutable_counts(), replayer_->statistics());
            frame.mutable_status()->set_lag_ns(outbox.lag(now));
            link_.send(frame);
        }
        const bool worth_it =
            results_.unflushed() >= kFlushRecords || (time && results_.unflushed() > 0);
        if (worth_it && (outbox.quiet(now, kFlushTime) || now - flushed_ >= kFlushAtLeast)) {
            flushed_ = now;
            results_.flush(expected());
        }
    }

    /// Records that are still to be written; more queries come until the trace ends, so that half
    /// as many may be added before the next flush.
    std::uint64_t expected() const {
        const Statistics& statistics = replayer_->statistics();
        const std::uint64_t open = statistics.received - statistics.ended();
        return trace_ended_ ? open : open + open / 2;
    }

    void check_end() {
        if (done_ || !replayer_) {
            return;
        }
        if (!results_.failure().empty()) {
            stop(results_.failure(), true);
        } else if (!replayer_->sender().trouble().empty()) {
            stop(replayer_->sender().trouble(), true);
        } else if (trace_ended_ && results_.is_open() && replayer_->settled() && !taking_in()) {
            done_ = true;
        }
    }

    void stop(const std::string& because, bool tell_parent) {
        if (done_) {
            return;
        }
        done_ = true;
        because_ = because;
        spdlog::warn("event=stopped because={}", log_value(because));
        if (tell_parent) {
            wire::Frame frame;
            frame.mutable_abort()->set_because(because);
            link_.send(frame);
        }
        if (replayer_) {
            if (!results_.is_open() && results_.failure().empty()) {
                open_results({});
            }
            replayer_->abort();
        }
    }

    void finish() {
        wire::Frame frame;
        wire::QuerierReport& report = *frame.mutable_finished()->add_reports();
        if (replayer_) {
            for (const auto& carrier : replayer_->carriers().all()) {
                carrier->count_drops();
            }
            because_ =
                because_.empty() ? reason_at_end(replayer_->statistics(), handed_) : because_;
            finish_results();
            set_counts(*report.mutable_counts(), replayer_->statistics());
        }
        if (because_.empty()) {
            because_ = results_.failure();
        }
        report.set_host(options_.name);
        report.set_querier(options_.index);
        report.set_clean(because_.empty());
        report.set_because(because_);
        link_.send(frame);
        link_.flush(kLastWordsMs);
    }

    /// A slow disk may take long to hold the records: meanwhile the parent hears that we live.
    void finish_results() {
        const Statistics& statistics = replayer_->statistics();
        wire::Frame alive;
        set_counts(*alive.mutable_status()->mutable_counts(), statistics);
        const std::future<void> done = std::async(
            std::launch::async, [&] { results_.finish(statistics, because_.empty(), because_); });
        while (done.wait_for(std::chrono::nanoseconds(kReportEvery)) != std::future_status::ready) {
            link_.send(alive);
            link_.flush(0);
        }
    }

    QueryOptions options_;
    ControlLink& link_;
    Network& network_;
    const Clock& clock_;
    Results results_;
    ReplayOptions replay_;
    std::unique_ptr<Replayer> replayer_; ///< from Setup on
    FrameReader reader_;
    bool more_frames_ = false; ///< it may hold another whole frame
    bool done_ = false;
    std::string because_;      ///< why the run is not clean
    bool trace_ended_ = false; ///< EndOfTrace came
    std::uint64_t handed_ = 0; ///< what it said
    Credit credit_;            ///< not yet returned
    Nanoseconds last_heard_ = 0;
    Nanoseconds next_report_ = 0;
    Nanoseconds looked_ = 0;  ///< at the descriptors, last
    Nanoseconds flushed_ = 0; ///< the records, last
};

} // namespace

int run_querier(const QueryOptions& options, ControlLink& link, Network& network) {
    return Process(options, link, network).run();
}

} // namespace reprise::querier
