#include "controller/read_ahead.hh"

#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/frame.hh"
#include "core/query.hh"
#include "core/record.hh"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace reprise::controller {
namespace {

constexpr size_t kBatches = 64;

} // namespace

/// The lock guards all but `feed`, which is the thread's own.
struct ReadAhead::Shared {
    std::unique_ptr<TraceFeed> feed;
    mutable std::mutex lock;
    std::condition_variable changed;
    std::deque<std::string> batches;
    FeedState state;
    bool stopping = false;

    void run();
    void publish(std::string& batch, bool at_end);
    bool wanted(size_t records, size_t bytes) const;
    void count(FeedState& out) const;
};

void ReadAhead::Shared::count(FeedState& out) const {
    const trace::Reader& reader = feed->reader();
    out.read = feed->read();
    out.responses = feed->responses();
    out.packets = reader.packets();
    out.sources = feed->sources();
    out.share_read = reader.share_read();
    out.skipped = feed->skipped();
}

/// A batch goes when it is full, or when the other side has nothing.
bool ReadAhead::Shared::wanted(size_t records, size_t bytes) const {
    if (records >= kBlockRecords || bytes >= kBlockBytes) {
        return true;
    }
    const std::lock_guard hold(lock);
    return batches.empty();
}

void ReadAhead::Shared::publish(std::string& batch, bool at_end) {
    feed->flush_sources();
    std::unique_lock hold(lock);
    changed.wait(hold, [this] { return batches.size() < kBatches || stopping; });
    count(state);
    if (!batch.empty()) {
        batches.push_back(std::exchange(batch, {}));
    }
    if (at_end) {
        state.counters = feed->reader().counters();
        state.trouble = feed->reader().trouble();
        state.ended = true;
    }
}

void ReadAhead::Shared::run() {
    try {
        std::string batch;
        size_t records = 0;
        Query query;
        while (feed->next(query)) {
            append_record(batch, query);
            ++records;
            if (wanted(records, batch.size())) {
                publish(batch, false);
                records = 0;
                const std::lock_guard hold(lock);
                if (stopping) {
                    break;
                }
            }
        }
        publish(batch, true);
    } catch (const std::exception& error) {
        const std::lock_guard hold(lock);
        count(state);
        state.error = error.what();
        state.ended = true;
    }
    changed.notify_all();
}

ReadAhead::ReadAhead(std::unique_ptr<TraceFeed> feed) : shared_(std::make_shared<Shared>()) {
    shared_->state.description = feed->reader().description();
    shared_->feed = std::move(feed);
    std::thread([shared = shared_] { shared->run(); }).detach();
}

ReadAhead::~ReadAhead() { stop(0); }

bool ReadAhead::take_batch() {
    const std::lock_guard hold(shared_->lock);
    if (shared_->batches.empty()) {
        return false;
    }
    batch_ = std::move(shared_->batches.front());
    shared_->batches.pop_front();
    shared_->changed.notify_all();
    records_.emplace(Bytes{reinterpret_cast<const std::uint8_t*>(batch_.data()), batch_.size()});
    return true;
}

ReadAhead::Next ReadAhead::next(Query& query) {
    while (true) {
        if (records_ && records_->next(query)) {
            return Next::kQuery;
        }
        if (!take_batch()) {
            const std::lock_guard hold(shared_->lock);
            if (shared_->batches.empty()) {
                return shared_->state.ended ? Next::kEnd : Next::kNothingYet;
            }
        }
    }
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
