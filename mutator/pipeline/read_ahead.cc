#include "mutator/pipeline/read_ahead.hh"

#include "core/trace/chunk.hh"

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::mutator {

ReadAhead::ReadAhead(std::vector<File> files, std::vector<size_t> order, unsigned threads)
    : order_(std::move(order)), threads_(threads) {
    files_.reserve(files.size());
    for (File& file : files) {
        files_.push_back({.source = std::move(file.source), .live = file.live, .ready = {}});
    }
}

/// Whether nobody reads it and there is more.
bool ReadAhead::readable(const State& file) const { return !file.busy && !file.ended; }

/// `ahead`: files not in use that were begun before it.
bool ReadAhead::may_run_ahead(const State& file, size_t ahead) const {
    if (file.live) {
        return false;
    }
    return file.in_use ? file.ready.size() < kChunksAhead
                       : ahead < threads_ && waiting_bytes_ < kAheadBytes;
}

std::optional<size_t> ReadAhead::pick_ahead() {
    while (first_ < order_.size() && files_[order_[first_]].ended) {
        ++first_;
    }
    size_t ahead = 0;
    for (size_t i = first_; i < order_.size() && ahead < threads_; ++i) {
        const State& file = files_[order_[i]];
        if (readable(file) && may_run_ahead(file, ahead)) {
            return order_[i];
        }
        ahead += file.in_use || file.ended ? 0 : 1;
    }
    return std::nullopt;
}

std::optional<size_t> ReadAhead::pick(std::optional<size_t> wanted) {
    const std::scoped_lock lock(mutex_);
    std::optional<size_t> file;
    if (wanted && readable(files_[*wanted]) && files_[*wanted].ready.empty()) {
        file = wanted;
    } else if (threads_ > 1) {
        file = pick_ahead();
    }
    if (file) {
        files_[*file].busy = true;
    }
    return file;
}

void ReadAhead::run(size_t file) {
    State& state = files_[file];
    auto chunk = state.source->read(); // without the lock: `busy` keeps others away
    const std::scoped_lock lock(mutex_);
    state.busy = false;
    waiting_bytes_ += chunk->memory();
    if (chunk->last) {
        state.ended = true;
        state.source = nullptr;
    }
    state.ready.push_back(std::move(chunk));
}

bool ReadAhead::has(size_t file) const {
    const std::scoped_lock lock(mutex_);
    return !files_[file].ready.empty();
}

std::shared_ptr<trace::Chunk> ReadAhead::take(size_t file) {
    const std::scoped_lock lock(mutex_);
    State& state = files_[file];
    if (state.ready.empty()) {
        return nullptr;
    }
    state.in_use = true;
    auto chunk = std::move(state.ready.front());
    state.ready.pop_front();
    waiting_bytes_ -= chunk->memory();
    return chunk;
}

} // namespace reprise::mutator
