#include "mutator/pipeline/pipeline.hh"

#include "core/base/error.hh"
#include "core/trace/batch.hh"
#include "core/trace/feed.hh"
#include "core/wire/query.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

/// How soon an idle thread notices an interrupt.
constexpr auto kLook = std::chrono::milliseconds(100);

/// What is read in several laps must be a file.
trace::FeedOptions feed_options(const InputOptions& options, unsigned threads) {
    for (const std::string& path : options.paths) {
        std::error_code ignored;
        if (options.laps > 1 && trace::Feed::is_live(path) &&
            (path == "-" || std::filesystem::exists(path, ignored))) {
            throw UsageError(fmt::format(
                "{} is a pipe, which is read once; write it to a file to --loop it", path));
        }
    }
    return {.paths = options.paths,
            .reader = {.ports = options.ports, .closes = true},
            .threads = threads};
}

} // namespace

Inputs::Inputs(const InputOptions& options, unsigned threads)
    : laps_(options.laps), feed_(feed_options(options, threads)),
      flush_(std::ranges::any_of(files(), &trace::Feed::File::live)),
      progress_("mutate", check_interrupt) {}

/// False where this was the last lap: of those asked for, or without a query to repeat.
bool Inputs::next_lap(Batch& batch) {
    counts_.packets = feed_.packets();
    counts_.responses = feed_.responses();
    counts_.counters = feed_.counters();
    const bool empty = std::exchange(queries_before_, counts_.queries) == counts_.queries;
    const bool more = ++lap_ < laps_ && !empty;
    for (Query& close : closes_) { // they come before the next lap's first query
        close.time = more ? std::min(close.time, clock_.next_begin()) : close.time;
        batch.queries.push_back(close);
    }
    closes_.clear();
    if (more) {
        clock_.next_lap();
        connections_ += std::exchange(last_connection_, 0);
        feed_.restart();
    }
    return more;
}

bool Inputs::fill(BatchJob& job) {
    job.flush = flush_;
    Batch& batch = job.batch;
    while (!batch.full()) {
        const size_t begin = batch.queries.size();
        const trace::Feed::Step step = feed_.next(batch);
        take(batch, begin);
        if (step == trace::Feed::Step::kStarved) {
            return feed_.waits_for_pipe() && !batch.queries.empty();
        }
        if (step == trace::Feed::Step::kEnd && !next_lap(batch)) {
            job.last = ended_ = true;
            return true;
        }
    }
    return true;
}

/// The queries from `begin` on are new.
void Inputs::take(Batch& batch, size_t begin) {
    for (Query& query : std::span(batch.queries).subspan(begin)) {
        last_connection_ = std::max(last_connection_, query.connection);
        query.connection += query.connection == 0 ? 0 : connections_;
        query.time = clock_.shifted(query.time);
        if (query.is_close()) {
            ++counts_.closes;
        } else {
            clock_.note(query.time);
            progress_.tick(++counts_.queries);
        }
    }
    if (laps_ > 1) {
        hold_closes(batch, begin);
    }
}

/// Closes wait for the query behind them, as a lap may end before it.
void Inputs::hold_closes(Batch& batch, size_t begin) {
    std::vector<Query>& queries = batch.queries;
    const auto first = queries.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = std::find_if_not(queries.rbegin(), std::make_reverse_iterator(first),
                                       [](const Query& query) { return query.is_close(); })
                          .base();
    std::vector<Query> behind(last, queries.end());
    queries.erase(last, queries.end());
    if (queries.size() > begin) {
        queries.insert(first, closes_.begin(), closes_.end());
        closes_.clear();
    }
    closes_.insert(closes_.end(), behind.begin(), behind.end());
}

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

} // namespace reprise::mutator
