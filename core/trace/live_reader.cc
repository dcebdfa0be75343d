#include "core/trace/live_reader.hh"

#include "core/base/clock.hh"
#include "core/trace/chunk.hh"
#include "core/trace/chunk_reader.hh"
#include "core/trace/reader.hh"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace reprise::trace {
namespace {

constexpr size_t kAhead = 4; ///< full chunks that may wait
constexpr auto kPatienceMs = std::chrono::milliseconds(LiveReader::kPatience / kMillisecond);
constexpr auto kIdle = std::chrono::milliseconds(100);

} // namespace

/// Shared with the thread, which may outlive the reader.
struct LiveReader::State {
    State(const std::string& path, const ReaderOptions& options) : reader(path, options) {}

    ChunkReader reader; ///< the thread's own
    std::mutex mutex;
    std::condition_variable changed;
    std::shared_ptr<Chunk> open = std::make_shared<Chunk>(); ///< being filled
    std::deque<std::shared_ptr<Chunk>> ready;                ///< full, or the last
    bool abandoned = false;

    /// Hands on the open chunk. Needs the lock.
    void hand_on() {
        auto next = std::make_shared<Chunk>();
        next->key = open->key;
        ready.push_back(std::exchange(open, std::move(next)));
        changed.notify_all();
    }

    /// The thread. False once nobody reads any more.
    bool take() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return abandoned || ready.size() < kAhead; });
        const bool first = open->entries.empty();
        reader.put(*open);
        if (open->full()) {
            hand_on();
        } else if (first && !open->entries.empty()) {
            changed.notify_all();
        }
        return !abandoned;
    }

    void run() {
        while (reader.fetch()) {
            if (!take()) {
                return;
            }
        }
        const std::scoped_lock lock(mutex);
        reader.finish(*open);
        hand_on();
    }

    std::shared_ptr<Chunk> give() {
        std::unique_lock lock(mutex);
        const auto full = [this] { return !ready.empty(); };
        const auto some = [&] { return full() || !open->entries.empty(); };
        if (changed.wait_for(lock, kIdle, some) && !full()) {
            changed.wait_for(lock, kPatienceMs, full);
        }
        if (!full()) {
            hand_on();
        }
        auto chunk = std::move(ready.front());
        ready.pop_front();
        changed.notify_all();
        return chunk;
    }
};

LiveReader::LiveReader(const std::string& path, const ReaderOptions& options)
    : state_(std::make_shared<State>(path, options)) {
    std::thread([state = state_] { state->run(); }).detach();
}

LiveReader::~LiveReader() {
    const std::scoped_lock lock(state_->mutex);
    state_->abandoned = true;
    state_->changed.notify_all();
}

std::shared_ptr<Chunk> LiveReader::read() { return state_->give(); }

} // namespace reprise::trace
