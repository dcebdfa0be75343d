#pragma once
// Plays the distributor to a real querier process over a socket pair. Nothing here waits for luck:
// every wait is for a condition and has a bound, after which the test fails.

#include "core/base/fd.hh"
#include "core/wire/counts.hh"
#include "core/wire/frame.hh"
#include "querier/testing/result_reader.hh"

#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace reprise::querier::testing {

/// A folder below $TMPDIR or /tmp that goes away with the object.
class ScratchFolder {
public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

struct Limits {
    std::uint64_t descriptors = 0; ///< 0 = as inherited
    std::uint64_t file_size = 0;   ///< bytes; 0 = as inherited
};

/// Sets a setting of [replay].
void set(wire::Options& options, const std::string& name, const std::string& value);

class Parent {
public:
    /// Starts the querier and takes its Hello.
    explicit Parent(const std::string& results, const Limits& limits = {},
                    const std::vector<std::string>& arguments = {});
    /// Kills the querier if it still runs.
    ~Parent();
    Parent(const Parent&) = delete;
    Parent& operator=(const Parent&) = delete;

    /// Options with the server on loopback, port 5300, both families, and short timeouts.
    static wire::Options options();

    void setup(const wire::Options& options);
    /// Announces a start `delay` from now.
    void start(Nanoseconds delay);
    void give(const std::vector<Query>& queries);
    void end_of_trace();
    void abort(const std::string& because);

    /// From now on says nothing any more, though its end stays open.
    void fall_silent() { silent_ = true; }

    void close() { control_.reset(); }

    /// It has stopped when this returns.
    void stop_process() const;
    void continue_process() const;

    /// Serves the link until `done`; false when `bound` passed first or the querier is gone.
    bool pump_until(const std::function<bool()>& done, Nanoseconds bound = 20 * kSecond);
    /// Serves the link to the end and collects the process; its exit status, or -1.
    int finish(Nanoseconds bound = 30 * kSecond);

    [[nodiscard]] const wire::Hello& hello() const { return hello_; }

    [[nodiscard]] const Counts& counts() const { return counts_; }

    /// What the querier has returned.
    [[nodiscard]] const Credit& credit() const { return credit_; }

    /// What was given to it.
    [[nodiscard]] const Credit& given() const { return given_; }

    [[nodiscard]] std::uint64_t clock_replies() const { return clock_replies_; }

    /// Why the querier stopped of its own; empty where it did not.
    [[nodiscard]] const std::string& aborted() const { return aborted_; }

    /// From its Finished; empty before.
    [[nodiscard]] const wire::QuerierReport& report() const { return report_; }

    /// Of report().
    [[nodiscard]] Counts final_counts() const { return read_counts(report_.counts()); }

    [[nodiscard]] bool reported() const { return reported_; }

    [[nodiscard]] RqContent records() const { return read_rq(results_ + "/queries-here-0.rq"); }

    [[nodiscard]] std::vector<AnswerContent> answers() const {
        return read_ra(results_ + "/answers-here-0.ra");
    }

private:
    void send(const wire::Frame& frame);
    /// One look at the link, at most `wait_ms` long. False when it is closed.
    bool serve(int wait_ms);
    void probe();
    void take(const wire::Frame& frame);

    std::string results_;
    pid_t pid_ = -1;
    FileDescriptor control_;
    FrameReader reader_;
    wire::Hello hello_;
    Counts counts_;
    Credit given_;
    Credit credit_;
    std::uint64_t clock_replies_ = 0;
    std::string aborted_;
    wire::QuerierReport report_;
    bool reported_ = false;
    Nanoseconds next_probe_ = 0;
    bool silent_ = false;
};

} // namespace reprise::querier::testing
