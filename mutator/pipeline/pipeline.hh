#pragma once
// Queries through the stages of a mutation: inputs -> rules -> encoder -> output.
//
// A stage sees every batch, in order and one at a time; different stages work on different batches
// at the same time. So a stage may keep state without locks, and what comes out does not depend on
// the number of threads. Threads prefer late stages, and the number of batches on their way is
// bounded, so memory is as well. A stage that makes much of a batch emits it in several.

#include "core/base/clock.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/forms/query_encoder.hh"
#include "mutator/output/output_file.hh"
#include "mutator/pipeline/inputs.hh"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

namespace reprise::mutator {

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

// The stages of a mutation behind the inputs.

struct OutputCounts {
    std::uint64_t queries = 0;
    std::uint64_t closes = 0;       ///< of the trace, as far as they are written
    std::uint64_t out_of_order = 0; ///< queries with an earlier time than the one before them
    trace::EncoderLosses losses;
};

/// Shows the rules every query and changes nothing.
class SurveyStage final : public Stage {
public:
    explicit SurveyStage(std::vector<rules::Rule*> rules);
    void run(BatchJob& job) override;

private:
    std::vector<rules::Rule*> rules_;
};

/// Applies one rule.
class RuleStage final : public Stage {
public:
    explicit RuleStage(rules::Rule& rule) : rule_(&rule) {}

    void run(BatchJob& job) override;

    [[nodiscard]] bool has_more() const override { return rule_->has_more(); }

    void run_more(BatchJob& job) override;

private:
    void end_piece(BatchJob& job);

    rules::Rule* rule_;
    bool last_ = false;  ///< the job at work was
    bool flush_ = false; ///< the same
};

/// Makes the output's bytes. Throws Error for a connection's number or a time that no reader would
/// take back.
class EncodeStage final : public Stage {
public:
    EncodeStage(std::unique_ptr<trace::QueryEncoder> encoder, OutputCounts& counts);
    void run(BatchJob& job) override;

private:
    void count(const Query& query);

    std::unique_ptr<trace::QueryEncoder> encoder_;
    OutputCounts* counts_;
    std::uint64_t closes_ = 0;                                   ///< that the encoder was given
    Nanoseconds last_ = std::numeric_limits<Nanoseconds>::min(); ///< time of the query before
    bool begun_ = false;
};

class WriteStage final : public Stage {
public:
    explicit WriteStage(OutputFile& output) : output_(&output) {}

    void run(BatchJob& job) override { output_->write(job.bytes); }

private:
    OutputFile* output_;
};

} // namespace reprise::mutator
