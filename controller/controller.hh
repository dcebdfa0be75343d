#pragma once
// Controller: reads the trace ahead, gives each query to the host of its source,
// announces one start, and accounts for every query at the end.
//
// Phases: open (until the trace's first query is there: a trace without queries bothers nobody) ->
// connect (children say Hello, clocks are probed) -> fill (the first window is read; heavy sources
// are placed) -> run (reading keeps the window ahead of the schedule, as far as credits go)
// -> drain (all handed out; waiting for Finished) -> over.

#include "controller/options.hh"
#include "controller/trace_feed.hh"
#include "core/base/output_file.hh"
#include "core/tree/fanout.hh"
#include "core/tree/host.hh"
#include "core/wire/counts.hh"
#include "core/wire/replay.pb.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace reprise::controller {

/// Checks what the parser cannot: the settings, and what goes with them. Throws UsageError.
void validate(const Options& options);

/// The certificates of a PEM file, as PEM without anything else (bundles have comments in any
/// encoding); empty for an empty path. Throws UsageError with the hint where there are none, or the
/// file is too large for a message of the tree.
std::string read_authorities(const std::string& path);

/// Says why nothing of a trace can be played, once it was read.
std::string no_queries(const Options& options, const FeedState& feed);

/// Looks at what Options::check says. The trace is read up to its first query that can be played,
/// and so much further that it can be told about how much is played in one lap: the answer is
/// "extent queries=N span_s=X\n", with zeros for what is not known, and empty for options alone.
/// Throws UsageError, TraceError, or Error where there is no such query.
std::string check(const Options& options);

/// The start as announced, and the trace's span.
struct StartTimes {
    Nanoseconds mono = 0; ///< 0: never started
    Nanoseconds real = 0;
    Nanoseconds trace_first = 0;
    Nanoseconds trace_last = 0;
};

/// How a run ended, for controller.json.
struct Outcome {
    std::vector<std::string> because; ///< why it is not clean; empty: clean
    bool aborted = false;
    bool cut_off = false; ///< replay.duration_s was over before all that was read was handed out
    StartTimes start;
    Nanoseconds duration = 0;
};

/// The controller's account of a run; controller.json, docs/formats.md.
struct Report {
    std::vector<std::string> because; ///< why it is not clean; empty: clean
    std::vector<std::string> warnings;
    Counts counts;                                ///< summed over the queriers
    std::map<std::string, std::uint64_t> skipped; ///< by reason, before any querier
    std::uint64_t handed = 0;
    std::uint64_t lost = 0;
    std::string json;

    /// All reasons in one line.
    [[nodiscard]] std::string because_text() const;
};

/// Compiles the account; checks that every query read ended in exactly one way.
Report compile_report(const Options& options, const FeedState& feed, const tree::Children& children,
                      const Outcome& outcome);

/// Whether a folder holds the report of a run whose queries were sent; those stay.
bool holds_run(const std::string& folder);

/// Adds what the queriers' sums say of a run as a whole. `late_ms`: what Counts::sent_late was
/// counted by.
void judge_counts(Report& report, double late_ms);

/// What queriers are asked to do. Throws UsageError where the file of tls.ca cannot be read.
wire::Options querier_setup(const Options& options, const Servers& servers);

/// Plays the trace; returns the exit status, 0 clean or 1.
int run_controller(const Options& options);

/// Queries a second for the live view. Counts are some tenths of a second old when they arrive, now
/// more and now less: what counts is when they were taken, not when they are shown.
class LiveRate {
public:
    /// Between the last two counts; `sent` queries so far, as counted at `time` after the start.
    double of(std::uint64_t sent, Nanoseconds time) {
        if (time > time_ && sent > 0) { // before, nobody may have counted yet
            value_ = static_cast<double>(sent - sent_) * 1e9 / static_cast<double>(time - time_);
            sent_ = sent;
            time_ = time;
        }
        return value_;
    }

private:
    std::uint64_t sent_ = 0;
    Nanoseconds time_ = 0;
    double value_ = 0;
};

class Controller {
public:
    /// `host` and `feed` must outlive it. `setup`: what the queriers are asked to do.
    Controller(const Options& options, tree::Host& host, wire::Options setup, ReadAhead& feed);

    /// Runs to the end; returns the exit status.
    int run();

private:
    enum class Phase : std::uint8_t { kOpen, kConnect, kFill, kRun, kDrain, kOver };

    void open();
    bool read_next();
    void on_ready();
    void on_lost(const tree::Child& child);
    void on_over();
    void pump();
    void fill();
    void start();
    void hand_out();
    void took_held();
    void at_end();
    bool hand_out_some(Nanoseconds now);
    [[nodiscard]] Nanoseconds time_left(Nanoseconds now) const;
    void abort(const std::string& because);
    void progress();
    int finish();

    Options options_;
    tree::Host& host_;
    wire::Options setup_;
    ReadAhead& feed_;
    ReservedFile report_file_;
    tree::Fanout fanout_;
    tree::FirstWindow staged_;
    std::unique_ptr<tree::Timer> pump_;
    std::unique_ptr<tree::Timer> progress_;
    Phase phase_ = Phase::kOpen;
    Outcome outcome_;

    std::uint64_t staged_count_ = 0; ///< records of the first window
    RecordView held_;                ///< query or close read but not yet handed out
    bool holding_ = false;
    bool ended_ = false; ///< nothing more to read
    LiveRate rate_;
};

} // namespace reprise::controller
