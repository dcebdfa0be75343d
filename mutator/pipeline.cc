#include "mutator/pipeline.hh"

#include "mutator/inputs.hh"
#include "mutator/interrupt.hh"
#include "mutator/parcel.hh"

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
    : inputs_(&inputs), threads_(threads) {
    for (auto& stage : stages) {
        stations_.push_back({.stage = std::move(stage), .queue = {}});
    }
    // Two for each thread: one being worked on, one waiting; and one being filled.
    for (unsigned i = 0; i < 2 * threads + 1; ++i) {
        free_.push_back(std::make_unique<Parcel>());
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
    if (!fill_busy_ && inputs_->can_fill() && (filling_ || !free_.empty())) {
        if (!filling_) {
            filling_ = std::move(free_.back());
            free_.pop_back();
        }
        fill_busy_ = true;
        return [this] { run_fill(); };
    }
    const auto file = fill_busy_ ? inputs_->pick_ahead() : inputs_->pick_read();
    return file ? Task([this, file = *file] { inputs_->read(file); }) : Task();
}

Pipeline::Task Pipeline::pick_stage() {
    for (size_t i = stations_.size(); i-- > 0;) {
        Station& station = stations_[i];
        if (!station.busy && !station.queue.empty()) {
            station.busy = true;
            return [this, i] { run_stage(i); };
        }
    }
    return {};
}

void Pipeline::run_stage(size_t index) {
    Station& station = stations_[index];
    std::unique_lock lock(mutex_);
    auto parcel = std::move(station.queue.front());
    station.queue.pop_front();
    lock.unlock();
    station.stage->run(*parcel);
    if (index + 1 == stations_.size()) {
        finish(std::move(parcel), station);
        return;
    }
    lock.lock();
    station.busy = false;
    stations_[index + 1].queue.push_back(std::move(parcel));
}

/// A parcel has passed the last stage.
void Pipeline::finish(std::unique_ptr<Parcel> parcel, Station& station) {
    const bool last = parcel->last;
    parcel->clear();
    const std::scoped_lock lock(mutex_);
    station.busy = false;
    done_ |= last;
    free_.push_back(std::move(parcel));
}

void Pipeline::run_fill() {
    const bool whole = inputs_->fill(*filling_);
    const std::scoped_lock lock(mutex_);
    fill_busy_ = false;
    if (whole) {
        stations_.front().queue.push_back(std::move(filling_));
    }
}

} // namespace reprise::mutator
