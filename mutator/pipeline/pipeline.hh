#pragma once
// Queries through the stages of a mutation: inputs -> rules -> encoder -> output.
//
// A stage sees every batch, in order and one at a time; different stages work on different batches
// at the same time. So a stage may keep state without locks, and what comes out does not depend on
// the number of threads. Threads prefer late stages, and the number of batches on their way is
// bounded, so memory is as well. A stage that makes much of a batch emits it in several.

#include "core/base/log.hh"
#include "core/base/trace_time.hh"
#include "core/trace/batch.hh"
#include "core/trace/chunk.hh"
#include "core/trace/feed.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace reprise::mutator {

/// A batch on its way from the inputs to the output, with what belongs to it.
struct BatchJob {
    Batch batch;
    std::string bytes;  ///< of the output, once encoded
    bool flush = false; ///< a reader may be waiting for it: keep nothing back
    bool last = false;
};

struct InputOptions {
    std::vector<std::string> paths; ///< "-" is standard input
    std::vector<std::uint16_t> ports{53};
    std::uint64_t laps = 1; ///< how often all of them are read
};

struct InputCounts {
    std::uint64_t queries = 0;
    std::uint64_t closes = 0;
    std::uint64_t responses = 0; ///< left out
    std::uint64_t packets = 0;   ///< or rows, or records
    trace::Counters counters;    ///< as the reader's
};

/// The traces that are mutated: merged by time, read several times if asked.
class Inputs {
public:
    /// Looks at the beginning of every file. `threads` that read(). Throws UsageError where a pipe
    /// is to be read more than once.
    Inputs(const InputOptions& options, unsigned threads);

    /// Whether fill() has something to work on. Not while fill() runs.
    [[nodiscard]] bool can_fill() const { return !ended_ && feed_.ready(); }

    /// Adds queries to the job; true when it is to be handed on: it is full, or the last, or a
    /// pipe is to be waited for. One thread at a time. Throws Error at an interrupt.
    bool fill(BatchJob& job);

    /// For the reads that fill() waits for.
    [[nodiscard]] trace::Feed& feed() { return feed_; }

    /// Whether one of them is a pipe.
    [[nodiscard]] bool live() const { return flush_; }

    /// Whole once all is read.
    [[nodiscard]] const InputCounts& counts() const { return counts_; }

    [[nodiscard]] const std::vector<trace::Feed::File>& files() const { return feed_.files(); }

private:
    bool next_lap(Batch& batch);
    void take(Batch& batch, size_t begin);
    void hold_closes(Batch& batch, size_t begin);

    std::uint64_t laps_;
    trace::Feed feed_;
    bool flush_ = false; ///< some input is a pipe
    bool ended_ = false;
    std::uint64_t lap_ = 0;
    std::uint64_t queries_before_ = 0; ///< of the laps before this one
    LapClock clock_;
    std::uint64_t connections_ = 0;     ///< numbers used by the laps before
    std::uint64_t last_connection_ = 0; ///< greatest number of this lap
    std::vector<Query> closes_;         ///< behind the latest query, in a run of several laps
    Progress progress_;
    InputCounts counts_;
};

class Stage {
public:
    Stage() = default;
    virtual ~Stage() = default;
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    /// Takes the next batch; one is the last (BatchJob::last).
    virtual void run(BatchJob& job) = 0;

    /// Whether the stage kept back some of what it made of the batch. run_more() is then called,
    /// with empty ones, before the next run().
    [[nodiscard]] virtual bool has_more() const { return false; }

    /// Fills the job with the next piece; the last piece has what the batch had (BatchJob::last).
    virtual void run_more(BatchJob& /*job*/) {}
};

class Pipeline {
public:
    /// Borrows the inputs; `threads` includes the caller's.
    Pipeline(Inputs& inputs, std::vector<std::unique_ptr<Stage>> stages, unsigned threads);

    /// Until the last batch has passed the last stage. Throws what the first failing stage threw,
    /// and Error at an interrupt.
    void run();

private:
    struct Station {
        std::unique_ptr<Stage> stage;
        std::deque<std::unique_ptr<BatchJob>> queue;
        bool busy = false;
        bool more = false; ///< the stage has; its queue waits
    };

    using Task = std::function<void()>;

    void work() noexcept;
    Task pick();
    Task pick_stage();
    [[nodiscard]] bool may_run_more(size_t index) const;
    void run_stage(size_t index);
    void run_more(size_t index);
    void hand_on(std::unique_ptr<BatchJob> job, size_t index);
    void finish(std::unique_ptr<BatchJob> job);
    void run_fill();
    void attempt(const Task& task);
    void stop(std::exception_ptr error);

    Inputs* inputs_;
    std::vector<Station> stations_;
    unsigned threads_;
    std::mutex mutex_;
    std::condition_variable changed_;
    size_t most_jobs_;                  ///< that the inputs fill; pieces may need more for a while
    size_t jobs_ = 0;                   ///< now
    std::unique_ptr<BatchJob> filling_; ///< begun; the inputs had no more for now
    bool fill_busy_ = false;
    bool done_ = false;
    std::exception_ptr error_;
};

} // namespace reprise::mutator
