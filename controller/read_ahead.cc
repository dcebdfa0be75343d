#include "controller/trace_feed.hh"
#include "core/wire/frame.hh"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace reprise::controller {

/// The lock guards all but `feed`, which is the thread's own.
struct ReadAhead::Shared {
    static constexpr size_t kBatches = 64;

    std::unique_ptr<TraceFeed> feed;
    mutable std::mutex lock;
    std::condition_variable changed;
    std::deque<std::string> batches; ///< full ones
    std::string filling;             ///< taken as it is by a reader that has no full one
    size_t filled = 0;               ///< records in it
    size_t usual = 0;                ///< bytes of a batch
    FeedState state;
    bool stopping = false;

    void run();
    bool add(const Query& query);
    void close_batch();
};

/// Adds one query or close, waiting while the queue is full; false when told to stop.
bool ReadAhead::Shared::add(const Query& query) {
    std::unique_lock hold(lock);
    const bool begins = filled == 0; // the one before is full or was taken
    if (begins) {
        filling.reserve(usual);
        state = feed->describe();
    }
    append_record(filling, query);
    feed->count(state); // must be right at any moment
    if (++filled >= kBlockRecords || filling.size() >= kBlockBytes) {
        close_batch();
        changed.wait(hold, [this] { return batches.size() < kBatches || stopping; });
    }
    const bool go_on = !stopping;
    hold.unlock();
    if (begins) {
        feed->sources().flush();
    }
    return go_on;
}

void ReadAhead::Shared::close_batch() {
    if (!filling.empty()) {
        usual = filling.size() + filling.size() / 8;
        batches.push_back(std::exchange(filling, {}));
    }
    filled = 0;
}

void ReadAhead::Shared::run() {
    std::string trouble;
    const auto guarded = [&trouble](const auto& action) {
        try {
            action();
        } catch (const std::exception& error) {
            trouble = trouble.empty() ? error.what() : trouble;
        }
    };
    guarded([this] {
        Query query;
        while (feed->next(query) && add(query)) {
        }
    });
    guarded([this] { feed->sources().close(); }); // those of what was read before an error, too
    const std::lock_guard hold(lock);
    close_batch();
    state = feed->state();
    state.error = trouble;
    state.ended = true;
    changed.notify_all();
}

ReadAhead::ReadAhead(std::unique_ptr<TraceFeed> feed) : shared_(std::make_shared<Shared>()) {
    shared_->state = feed->state();
    shared_->feed = std::move(feed);
    std::thread([shared = shared_] { shared->run(); }).detach();
}

ReadAhead::~ReadAhead() { stop(0); }

ReadAhead::Next ReadAhead::next(RecordView& query) {
    while (!records_ || !records_->next(query)) {
        const std::lock_guard hold(shared_->lock);
        if (shared_->batches.empty()) {
            shared_->close_batch();
        }
        if (shared_->batches.empty()) {
            return shared_->state.ended ? Next::kEnd : Next::kNothingYet;
        }
        batch_ = std::move(shared_->batches.front());
        shared_->batches.pop_front();
        shared_->changed.notify_all();
        records_.emplace(bytes_of(batch_));
    }
    return Next::kQuery;
}

FeedState ReadAhead::state() const {
    const std::lock_guard hold(shared_->lock);
    return shared_->state;
}

void ReadAhead::stop(Nanoseconds patience) {
    std::unique_lock hold(shared_->lock);
    shared_->stopping = true;
    shared_->changed.notify_all();
    shared_->changed.wait_for(hold, std::chrono::nanoseconds(patience),
                              [this] { return shared_->state.ended; });
}

} // namespace reprise::controller
