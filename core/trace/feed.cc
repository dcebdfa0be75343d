#include "core/trace/feed.hh"

#include "core/base/clock.hh"
#include "core/trace/batch.hh"
#include "core/trace/chunk.hh"
#include "core/trace/chunk_reader.hh"
#include "core/trace/merge.hh"
#include "core/trace/reassembly/options.hh"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

constexpr Nanoseconds kAtOnce = std::numeric_limits<Nanoseconds>::min();

} // namespace

/// The files of one lap, and chunks that were read and wait for the merge. All calls may come from
/// any thread, but for read_now().
class Feed::Lap {
public:
    struct File {
        std::unique_ptr<ChunkSource> source; ///< null once it has ended
        bool live = false;
        bool busy = false;   ///< being read
        bool in_use = false; ///< by the merge
        bool ended = false;
        std::deque<std::shared_ptr<Chunk>> ready;
    };

    /// `order`: the files in the order of their first packets.
    Lap(std::vector<File> files, std::vector<size_t> order, unsigned threads)
        : files_(std::move(files)), order_(std::move(order)), threads_(threads) {}

    /// A file that is to be read now, `wanted` first; it must be handed to run(). Nothing where all
    /// that may be read is being read.
    std::optional<size_t> pick(std::optional<size_t> wanted) {
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

    /// Reads a chunk.
    void run(size_t index) {
        File& file = files_[index];
        auto chunk = file.source->read(); // without the lock: `busy` keeps others away
        const std::scoped_lock lock(mutex_);
        file.busy = false;
        waiting_bytes_ += chunk->memory();
        if (chunk->last) {
            file.ended = true;
            file.source = nullptr;
        }
        file.ready.push_back(std::move(chunk));
    }

    [[nodiscard]] bool has(size_t index) const {
        const std::scoped_lock lock(mutex_);
        return !files_[index].ready.empty();
    }

    /// The next chunk of a file, if there is one; from now on the file is in use.
    std::shared_ptr<Chunk> take(size_t index) {
        const std::scoped_lock lock(mutex_);
        File& file = files_[index];
        if (file.ready.empty()) {
            return nullptr;
        }
        file.in_use = true;
        auto chunk = std::move(file.ready.front());
        file.ready.pop_front();
        waiting_bytes_ -= chunk->memory();
        return chunk;
    }

    /// Reads and takes a chunk, where nobody else does.
    std::shared_ptr<Chunk> read_now(size_t index) {
        auto chunk = files_[index].source->read();
        if (chunk->last) {
            files_[index].source = nullptr;
        }
        return chunk;
    }

    [[nodiscard]] ChunkSource* source(size_t index) const { return files_[index].source.get(); }

private:
    /// Whether nobody reads it and there is more.
    static bool readable(const File& file) { return !file.busy && !file.ended; }

    /// `ahead`: files not in use that were begun before it.
    [[nodiscard]] bool may_run_ahead(const File& file, size_t ahead) const {
        if (file.live) {
            return false;
        }
        return file.in_use ? file.ready.size() < kChunksAhead
                           : ahead < threads_ && waiting_bytes_ < kAheadBytes;
    }

    std::optional<size_t> pick_ahead() {
        while (first_ < order_.size() && files_[order_[first_]].ended) {
            ++first_;
        }
        size_t ahead = 0;
        for (size_t i = first_; i < order_.size() && ahead < threads_; ++i) {
            const File& file = files_[order_[i]];
            if (readable(file) && may_run_ahead(file, ahead)) {
                return order_[i];
            }
            ahead += file.in_use || file.ended ? 0 : 1;
        }
        return std::nullopt;
    }

    std::vector<File> files_;
    std::vector<size_t> order_;
    size_t first_ = 0; ///< files of order_ before it have ended
    unsigned threads_;
    size_t waiting_bytes_ = 0;
    mutable std::mutex mutex_;
};

Feed::Feed(FeedOptions options) : options_(std::move(options)) {
    for (const std::string& path : options_.paths) {
        add(path);
    }
    begin_lap();
}

Feed::Feed(const std::string& path, const ReaderOptions& reader, size_t batch)
    : Feed({.paths = {path}, .reader = reader, .batch = batch, .responses = Responses::kWhole}) {
    open();
}

bool Feed::is_live(const std::string& path) {
    std::error_code ignored;
    return path == "-" || !std::filesystem::is_regular_file(path, ignored);
}

void Feed::add(const std::string& path) {
    const bool live = is_live(path);
    Merge::File file{.first = kAtOnce, .space = 0};
    if (options_.paths.size() > 1) {
        ChunkReader head(path, options_.reader, {.entries = 1, .responses = options_.responses});
        file.first = live ? kAtOnce : head.read()->key;
        if (live || head.has_messages()) {
            file.space = files_.size() + 1;
            spaces_ = options_.paths.size() + 1;
        }
    }
    heads_.push_back(file);
    files_.push_back({.path = path, .live = live, .end = {}});
}

ChunkOptions Feed::chunk_options(bool live) const {
    ChunkOptions chunks{.responses = options_.responses, .expect = options_.expect};
    if (options_.threads == 0) {
        chunks.entries = options_.batch;
        chunks.prompt = live;
    }
    return chunks;
}

void Feed::begin_lap() {
    std::vector<Lap::File> files;
    for (const File& file : files_) {
        Lap::File& mine = files.emplace_back();
        mine.live = file.live;
        const ChunkOptions chunks = chunk_options(file.live);
        if (file.live && options_.threads > 0) {
            mine.source = std::make_unique<LiveReader>(file.path, options_.reader, chunks);
        } else {
            mine.source = std::make_unique<ChunkReader>(file.path, options_.reader, chunks);
        }
    }
    std::vector<size_t> order(files_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {},
                      [this](size_t file) { return std::pair(heads_[file].first, file); });
    auto lap = std::make_shared<Lap>(std::move(files), std::move(order), options_.threads);
    {
        const std::scoped_lock lock(lap_mutex_);
        lap_.swap(lap);
    }
    merge_ = std::make_unique<Merge>(heads_, spaces_, options_.reader, options_.responses);
    ended_ = 0;
}

void Feed::open() {
    for (size_t i = 0; i < files_.size(); ++i) {
        files_[i].end.description = lap_->source(i)->open();
    }
}

void Feed::restart() {
    counters_ = counters();
    responses_ = responses();
    starved_ = false;
    begin_lap();
}

bool Feed::read(Batch& batch) {
    batch.clear(); // lets go of the chunk, which may be used again
    Merge::Step step = merge_->next(batch);
    while (batch.queries.empty() && step == Merge::Step::kStarved) {
        give(lap_->read_now(merge_->wanted()));
        step = merge_->next(batch);
    }
    return !batch.queries.empty();
}

Merge::Step Feed::next(Batch& batch) {
    while (true) {
        const Merge::Step step = merge_->next(batch);
        starved_ = step == Merge::Step::kStarved;
        auto chunk = starved_ ? lap_->take(merge_->wanted()) : nullptr;
        if (!chunk) {
            return step;
        }
        give(std::move(chunk));
    }
}

/// Gives the merge the chunk it waits for.
void Feed::give(std::shared_ptr<const Chunk> chunk) {
    packets_ += chunk->packets;
    responses_ += chunk->responses;
    share_ = chunk->share_read;
    if (chunk->last) {
        ++ended_;
        files_[merge_->wanted()].end = chunk->end;
    }
    merge_->give(std::move(chunk));
}

bool Feed::ready() const { return !starved_ || lap_->has(merge_->wanted()); }

Feed::Work Feed::work_of(std::shared_ptr<Lap> lap, std::optional<size_t> wanted) {
    const auto file = lap->pick(wanted);
    return file ? Work([lap = std::move(lap), file = *file] { lap->run(file); }) : Work();
}

Feed::Work Feed::pick() {
    return work_of(lap_, starved_ ? std::optional(merge_->wanted()) : std::nullopt);
}

Feed::Work Feed::pick_ahead() {
    std::unique_lock lock(lap_mutex_);
    auto lap = lap_;
    lock.unlock();
    return work_of(std::move(lap), std::nullopt);
}

Counters Feed::counters() const {
    Counters all = counters_;
    trace::add(all, merge_->counters());
    for (size_t i = 0; options_.threads == 0 && i < files_.size(); ++i) {
        if (const ChunkSource* source = lap_->source(i)) {
            trace::add(all, source->counters());
        }
    }
    return all;
}

double Feed::share_read() const {
    return files_.size() == 1 ? share_
                              : static_cast<double>(ended_) / static_cast<double>(files_.size());
}

} // namespace reprise::trace
