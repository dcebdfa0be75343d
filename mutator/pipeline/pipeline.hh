#pragma once
// Queries through the stages of a mutation: feed -> rules -> encoder -> output.
//
// A stage sees every batch, in order and one at a time; different stages work on different batches
// at the same time. So a stage may keep state without locks, and what comes out does not depend on
// the number of threads. Threads prefer late stages, and the number of batches on their way is
// bounded, so memory is as well. A stage that makes much of a batch emits it in several.

#include "core/base/log.hh"
#include "core/trace/batch.hh"
#include "core/trace/feed.hh"

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

/// A batch on its way from the feed to the output, with what belongs to it.
struct BatchJob {
    Batch batch;
    std::string bytes;  ///< of the output, once encoded
    bool flush = false; ///< a reader may be waiting for it: keep nothing back
    bool last = false;
};

/// Works on the next batch; one is the last (BatchJob::last). Returns whether it kept back some of
/// what it made of the batch. It is then called with jobs for the next pieces before the next
/// batch: with an empty batch each, and `flush` and `last` as they came. Of a stage that has more,
/// a job is not the last.
using Stage = std::function<bool(BatchJob& job)>;

class Pipeline {
public:
    /// Borrows the feed; `threads`, which it was made for, include the caller's.
    Pipeline(trace::Feed& feed, std::vector<Stage> stages, unsigned threads);

    /// Until the last batch has passed the last stage. Throws what the first failing stage threw,
    /// and Error at an interrupt.
    void run();

    /// Read from the feed.
    [[nodiscard]] std::uint64_t queries() const { return queries_; }

    [[nodiscard]] std::uint64_t closes() const { return closes_; }

private:
    struct Station {
        Stage stage;
        std::deque<std::unique_ptr<BatchJob>> queue;
        bool busy = false;
        bool more = false; ///< the stage has: the first of its queue is for that
    };

    using Task = std::function<void()>;

    void work() noexcept;
    Task pick();
    Task pick_stage();
    void run_stage(size_t index);
    void run_fill();
    void attempt(const Task& task);

    trace::Feed* feed_;
    Progress progress_;
    std::uint64_t queries_ = 0;
    std::uint64_t closes_ = 0;
    std::deque<Station> stations_;
    unsigned threads_;
    std::mutex mutex_;
    std::condition_variable changed_;
    size_t most_jobs_;                  ///< that are filled; pieces may need more for a while
    size_t jobs_ = 0;                   ///< now
    std::unique_ptr<BatchJob> filling_; ///< begun; the feed had no more for now
    bool fill_busy_ = false;
    bool ended_ = false; ///< the feed has
    bool done_ = false;
    std::exception_ptr error_;
};

} // namespace reprise::mutator
