#include "mutator/pipeline/pipeline.hh"

#include "core/trace/feed.hh"
#include "core/wire/query.hh"
#include "mutator/output/output_file.hh"

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

/// How soon an idle thread notices an interrupt.
constexpr auto kLook = std::chrono::milliseconds(100);

} // namespace

Pipeline::Pipeline(trace::Feed& feed, std::vector<Stage> stages, unsigned threads)
    // Two for each thread: one being worked on, one waiting; and one being filled.
    : feed_(&feed), progress_("mutate", check_interrupt), threads_(threads),
      most_jobs_(2 * size_t{threads} + 1) {
    for (Stage& stage : stages) {
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
        const std::scoped_lock lock(mutex_);
        if (!error_) {
            error_ = std::current_exception();
        }
        done_ = true;
        changed_.notify_all();
    }
}

/// Work for a thread; none where all that can be done is being done. Needs the lock.
Pipeline::Task Pipeline::pick() {
    if (Task task = pick_stage()) {
        return task;
    }
    if (!fill_busy_ && !ended_ && feed_->ready() && (filling_ || jobs_ < most_jobs_)) {
        jobs_ += filling_ ? 0U : 1U;
        fill_busy_ = true;
        return [this] { run_fill(); };
    }
    return fill_busy_ ? feed_->pick_ahead() : feed_->pick();
}

// Pieces need jobs besides those of the feed, all of which may be waiting before their stage. That
// few wait behind it bounds memory; as these drain by themselves, or by the last stage that has
// more, there is no deadlock.
Pipeline::Task Pipeline::pick_stage() {
    size_t behind = 0;
    for (size_t i = stations_.size(); i-- > 0;) {
        Station& station = stations_[i];
        if (!station.busy && !station.queue.empty() && (!station.more || behind < threads_)) {
            station.busy = true;
            jobs_ += station.more ? 1U : 0U;
            return [this, i] { run_stage(i); };
        }
        behind += station.queue.size();
    }
    return {};
}

void Pipeline::run_stage(size_t index) {
    Station& station = stations_[index];
    std::unique_lock lock(mutex_);
    auto job = std::move(station.queue.front());
    station.queue.pop_front();
    lock.unlock();
    std::unique_ptr<BatchJob> piece;
    const bool flush = job->flush;
    const bool last = job->last;
    if (station.stage(*job)) {
        piece = std::make_unique<BatchJob>();
        piece->flush = flush;
        piece->last = last;
    }
    const bool behind_all = index + 1 == stations_.size();
    const bool ends = behind_all && job->last;
    if (behind_all) {
        job.reset();
    }
    lock.lock();
    station.busy = false;
    station.more = piece != nullptr;
    if (piece) {
        station.queue.push_front(std::move(piece));
    }
    if (job) {
        stations_[index + 1].queue.push_back(std::move(job));
    } else {
        done_ |= ends;
        --jobs_;
    }
}

/// Adds queries to the job, which is handed on when it is full, or the last, or a pipe is to be
/// waited for.
void Pipeline::run_fill() {
    if (!filling_) {
        filling_ = std::make_unique<BatchJob>();
    }
    const std::vector<Query>& queries = filling_->batch.queries;
    const size_t begin = queries.size();
    const trace::Feed::Step step = feed_->next(filling_->batch);
    for (const Query& query : std::span(queries).subspan(begin)) {
        if (query.is_close()) {
            ++closes_;
        } else {
            progress_.tick(++queries_);
        }
    }
    filling_->flush = feed_->live();
    filling_->last = ended_ = step == trace::Feed::Step::kEnd;
    const bool whole =
        step != trace::Feed::Step::kStarved || (feed_->waits_for_pipe() && !queries.empty());
    const std::scoped_lock lock(mutex_);
    fill_busy_ = false;
    if (whole) {
        stations_.front().queue.push_back(std::move(filling_));
    }
}

} // namespace reprise::mutator
