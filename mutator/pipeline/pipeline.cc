#include "mutator/pipeline/pipeline.hh"

#include "core/base/error.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "mutator/output/output_file.hh"
#include "mutator/pipeline/inputs.hh"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

/// How soon an idle thread notices an interrupt.
constexpr auto kLook = std::chrono::milliseconds(100);

} // namespace

Pipeline::Pipeline(Inputs& inputs, std::vector<std::unique_ptr<Stage>> stages, unsigned threads)
    // Two for each thread: one being worked on, one waiting; and one being filled.
    : inputs_(&inputs), threads_(threads), most_jobs_(2 * size_t{threads} + 1) {
    for (auto& stage : stages) {
        stations_.push_back({.stage = std::move(stage), .queue = {}});
    }
}

void Pipeline::run() {
    {
        std::vector<std::jthread> others;
        for (unsigned i = 1; i < threads_; ++i) {
            others.emplace_back([this] { work(); });
        }
        work();
    }
    if (error_) {
        std::rethrow_exception(error_);
    }
}

void Pipeline::work() noexcept {
    std::unique_lock lock(mutex_);
    while (!done_) {
        if (const Task task = pick()) {
            lock.unlock();
            attempt(task);
            lock.lock();
            changed_.notify_all();
        } else {
            changed_.wait_for(lock, kLook);
            lock.unlock();
            attempt([] {}); // looks for an interrupt
            lock.lock();
        }
    }
}

void Pipeline::attempt(const Task& task) {
    try {
        check_interrupt();
        task();
    } catch (...) {
        stop(std::current_exception());
    }
}

void Pipeline::stop(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (!error_) {
        error_ = std::move(error);
    }
    done_ = true;
    changed_.notify_all();
}

/// Work for a thread; none where all that can be done is being done. Needs the lock.
Pipeline::Task Pipeline::pick() {
    if (Task task = pick_stage()) {
        return task;
    }
    if (!fill_busy_ && inputs_->can_fill() && (filling_ || jobs_ < most_jobs_)) {
        jobs_ += filling_ ? 0U : 1U;
        fill_busy_ = true;
        return [this] { run_fill(); };
    }
    return fill_busy_ ? inputs_->feed().pick_ahead() : inputs_->feed().pick();
}

Pipeline::Task Pipeline::pick_stage() {
    for (size_t i = stations_.size(); i-- > 0;) {
        Station& station = stations_[i];
        if (station.busy) {
            continue;
        }
        if (station.more ? may_run_more(i) : !station.queue.empty()) {
            station.busy = true;
            jobs_ += station.more ? 1U : 0U;
            return station.more ? Task([this, i] { run_more(i); })
                                : Task([this, i] { run_stage(i); });
        }
    }
    return {};
}

// Pieces need jobs besides those of the inputs, all of which may be waiting before this stage.
// That few are on their way behind it bounds memory; as these drain by themselves, or by the last
// stage that has more, there is no deadlock.
bool Pipeline::may_run_more(size_t index) const {
    size_t waiting = 0;
    for (size_t i = index + 1; i < stations_.size(); ++i) {
        waiting += stations_[i].queue.size();
    }
    return waiting < threads_;
}

void Pipeline::run_stage(size_t index) {
    Station& station = stations_[index];
    std::unique_lock lock(mutex_);
    auto job = std::move(station.queue.front());
    station.queue.pop_front();
    lock.unlock();
    station.stage->run(*job);
    hand_on(std::move(job), index);
}

void Pipeline::run_more(size_t index) {
    auto job = std::make_unique<BatchJob>();
    stations_[index].stage->run_more(*job);
    hand_on(std::move(job), index);
}

/// From a stage that is done with it.
void Pipeline::hand_on(std::unique_ptr<BatchJob> job, size_t index) {
    Station& station = stations_[index];
    const bool more = station.stage->has_more();
    const bool behind_all = index + 1 == stations_.size();
    if (behind_all) {
        finish(std::move(job));
    }
    const std::scoped_lock lock(mutex_);
    station.busy = false;
    station.more = more;
    if (!behind_all) {
        stations_[index + 1].queue.push_back(std::move(job));
    }
}

/// A job has passed the last stage.
void Pipeline::finish(std::unique_ptr<BatchJob> job) {
    const bool last = job->last;
    job.reset();
    const std::scoped_lock lock(mutex_);
    done_ |= last;
    --jobs_;
}

void Pipeline::run_fill() {
    if (!filling_) {
        filling_ = std::make_unique<BatchJob>();
    }
    const bool whole = inputs_->fill(*filling_);
    const std::scoped_lock lock(mutex_);
    fill_busy_ = false;
    if (whole) {
        stations_.front().queue.push_back(std::move(filling_));
    }
}

SurveyStage::SurveyStage(std::vector<rules::Rule*> rules) : rules_(std::move(rules)) {}

void SurveyStage::run(BatchJob& job) {
    for (const Query& query : job.batch.queries) {
        for (rules::Rule* rule : rules_) {
            rule->survey(query);
        }
    }
}

void RuleStage::run(BatchJob& job) {
    if (!job.batch.queries.empty()) {
        rule_->apply(job.batch);
    }
    last_ = job.last;
    flush_ = job.flush;
    end_piece(job);
}

void RuleStage::run_more(BatchJob& job) {
    rule_->apply_more(job.batch);
    job.flush = flush_;
    end_piece(job);
}

/// The last piece of the last job is the last one behind this stage.
void RuleStage::end_piece(BatchJob& job) {
    job.last = last_ && !has_more();
    if (job.last) {
        rule_->finish(job.batch);
    }
}

EncodeStage::EncodeStage(std::unique_ptr<trace::QueryEncoder> encoder, OutputCounts& counts)
    : encoder_(std::move(encoder)), counts_(&counts) {}

void EncodeStage::count(const Query& query) {
    if (query.connection > trace::kMaxConnection) {
        throw Error(fmt::format("connection {} is beyond {}, the greatest number that a trace can "
                                "have; number the inputs' connections from 1",
                                query.connection, trace::kMaxConnection));
    }
    if (!is_trace_time(query.time)) {
        throw Error(fmt::format("a query at {} ns lies outside the years 1900 to 2149, which a "
                                "trace can have; give fewer laps (--loop) or change the times",
                                query.time));
    }
    if (query.is_close()) {
        ++closes_;
        return;
    }
    ++counts_->queries;
    counts_->out_of_order += query.time < last_ ? 1U : 0U;
    last_ = query.time;
}

void EncodeStage::run(BatchJob& job) {
    if (!std::exchange(begun_, true)) {
        encoder_->begin(job.bytes);
    }
    for (Query& query : job.batch.queries) {
        query.sequence = counts_->queries;
        encoder_->encode(query, job.bytes);
        count(query);
    }
    counts_->losses = encoder_->losses();
    counts_->closes = closes_ - counts_->losses.closes_left_out;
    if (job.flush) {
        encoder_->flush(job.bytes);
    }
    if (job.last) {
        encoder_->finish(job.bytes);
    }
}

} // namespace reprise::mutator
