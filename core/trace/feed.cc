#include "core/trace/feed.hh"

#include "core/dns/message.hh"
#include "core/trace/batch.hh"
#include "core/trace/chunk.hh"
#include "core/trace/chunk_reader.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <queue>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

constexpr Nanoseconds kAtOnce = std::numeric_limits<Nanoseconds>::min();

/// Whether a path is a pipe, or another thing that can be read once.
bool is_live(const std::string& path) {
    std::error_code ignored;
    return path == "-" || !std::filesystem::is_regular_file(path, ignored);
}

ChunkOptions chunk_options(const FeedOptions& options, bool live) {
    ChunkOptions chunks{.responses = options.responses, .expect = options.expect};
    if (options.threads == 0) {
        chunks.entries = options.batch;
        chunks.prompt = live;
    }
    return chunks;
}

} // namespace

/// The files of one lap, and chunks that were read and wait for the merge. All calls may come from
/// any thread, but for read_now().
class Feed::Lap {
public:
    struct File {
        std::shared_ptr<ChunkSource> source; ///< null once it has ended
        bool live = false;
        bool busy = false;   ///< being read
        bool in_use = false; ///< by the merge
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
    static bool readable(const File& file) { return !file.busy && file.source; }

    /// `ahead`: files not in use that were begun before it.
    [[nodiscard]] bool may_run_ahead(const File& file, size_t ahead) const {
        if (file.live) {
            return false;
        }
        return file.in_use ? file.ready.size() < kChunksAhead
                           : ahead < threads_ && waiting_bytes_ < kAheadBytes;
    }

    std::optional<size_t> pick_ahead() {
        while (first_ < order_.size() && !files_[order_[first_]].source) {
            ++first_;
        }
        size_t ahead = 0;
        for (size_t i = first_; i < order_.size() && ahead < threads_; ++i) {
            const File& file = files_[order_[i]];
            if (readable(file) && may_run_ahead(file, ahead)) {
                return order_[i];
            }
            ahead += file.in_use || !file.source ? 0U : 1U;
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

/// The files of a lap as one trace.
class Feed::Merge {
public:
    Merge(const std::vector<Place>& places, size_t spaces, const FeedOptions& options)
        : spaces_(spaces), assembler_(options.reader), responses_(options.responses) {
        for (const Place& place : places) {
            heads_.emplace(place.first, files_.size());
            files_.push_back({.space = place.space, .chunk = nullptr, .at = 0});
        }
    }

    /// Adds what comes next. kStarved: the next chunk of wanted() is needed.
    Step next(Batch& batch) {
        while (!batch.full()) {
            if (pop_assembled(batch)) {
                continue;
            }
            if (current_ != kNone) {
                advance(batch);
            } else if (!choose()) {
                if (!heads_.empty()) {
                    return Step::kStarved;
                }
                if (std::exchange(finished_, true)) {
                    return Step::kEnd;
                }
                assembler_.finish();
            }
        }
        return Step::kFull;
    }

    [[nodiscard]] size_t wanted() const { return heads_.top().second; }

    /// The next chunk of wanted().
    void give(std::shared_ptr<const Chunk> chunk) {
        const size_t file = wanted();
        heads_.pop();
        tally_.add(chunk->tally);
        trace::add(counters_, chunk->counters);
        if (!chunk->entries.empty()) {
            heads_.emplace(chunk->entries.front().key, file);
            files_[file].chunk = std::move(chunk);
            files_[file].at = 0;
        } else if (!chunk->last) {
            heads_.emplace(chunk->key, file);
        }
    }

    /// What was not yielded or was special, so far.
    [[nodiscard]] Counters counters() const {
        Tally tally = tally_;
        tally.add(assembler_.tally());
        Counters all = tally.named();
        trace::add(all, counters_);
        return all;
    }

    /// Over TCP, left out.
    [[nodiscard]] std::uint64_t responses() const { return left_out_; }

private:
    static constexpr size_t kNone = SIZE_MAX;

    /// Latest time shown and number of a file.
    using Head = std::pair<Nanoseconds, size_t>;

    struct State {
        size_t space = 0;
        std::shared_ptr<const Chunk> chunk; ///< null: none at hand
        size_t at = 0;                      ///< its next entry
    };

    /// Numbers of different spaces stay apart; those of a single space stay as they are.
    [[nodiscard]] std::uint64_t number(std::uint64_t connection, size_t space) const {
        return connection == 0 ? 0 : (connection - 1) * spaces_ + space + 1;
    }

    /// The file with the earliest head becomes the current one; false where its chunk is missing,
    /// or no file is left.
    bool choose() {
        if (heads_.empty() || !files_[wanted()].chunk) {
            return false;
        }
        current_ = wanted();
        heads_.pop();
        return true;
    }

    /// Adds queries of the current file, until the batch is full, another file comes first, the
    /// assembler has a packet to work on, or the chunk is used up.
    void advance(Batch& batch) {
        State& file = files_[current_];
        const std::vector<Chunk::Entry>& entries = file.chunk->entries;
        for (; file.at < entries.size(); ++file.at) {
            const Chunk::Entry& entry = entries[file.at];
            if (!heads_.empty() && heads_.top() < Head{entry.key, current_}) {
                heads_.emplace(entry.key, current_);
                current_ = kNone;
                return;
            }
            if (entry.packet) {
                ++file.at;
                assembler_.feed({.link = entry.link,
                                 .time = entry.query.time,
                                 .bytes = entry.query.message,
                                 .wire_length = entry.wire_length});
                return;
            }
            if (batch.full()) {
                return;
            }
            batch.add(entry.query, file.chunk);
            std::uint64_t& connection = batch.queries.back().connection;
            connection = number(connection, file.space);
        }
        // Its next chunk is needed once the merge comes to its time.
        const auto chunk = std::exchange(file.chunk, nullptr);
        if (!chunk->last) {
            heads_.emplace(chunk->key, current_);
        }
        current_ = kNone;
    }

    /// False where no message is assembled. Its bytes are copied, as the assembler uses them again.
    bool pop_assembled(Batch& batch) {
        Query query;
        if (!assembler_.pop(query)) {
            return false;
        }
        if (query.is_response() && responses_ == Responses::kNone) {
            ++left_out_;
            return true;
        }
        const bool header = query.is_response() && responses_ == Responses::kHeaders;
        query.message = batch.copy(header ? query.message.first(kDnsHeaderSize) : query.message);
        query.connection = number(query.connection, 0);
        batch.add(query);
        return true;
    }

    size_t spaces_;
    std::vector<State> files_;
    std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_; ///< all but `current_`
    size_t current_ = kNone;
    Assembler assembler_;
    Responses responses_;
    std::uint64_t left_out_ = 0;
    bool finished_ = false;
    Tally tally_;
    Counters counters_;
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

void Feed::add(const std::string& path) {
    const bool live = is_live(path);
    Place place{.first = kAtOnce, .space = 0};
    if (options_.paths.size() > 1) {
        ChunkReader head(path, options_.reader, {.entries = 1, .responses = options_.responses});
        place.first = live ? kAtOnce : head.read()->key;
        if (live || head.has_messages()) {
            place.space = files_.size() + 1;
            spaces_ = options_.paths.size() + 1;
        }
    }
    places_.push_back(place);
    files_.push_back({.path = path, .live = live, .end = {}});
}

void Feed::begin_lap() {
    std::vector<Lap::File> files;
    for (const File& file : files_) {
        Lap::File& mine = files.emplace_back();
        mine.live = file.live;
        const ChunkOptions chunks = chunk_options(options_, file.live);
        if (file.live && options_.threads > 0) {
            mine.source = read_live(file.path, options_.reader, chunks);
        } else {
            mine.source = std::make_shared<ChunkReader>(file.path, options_.reader, chunks);
        }
    }
    std::vector<size_t> order(files_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {},
                      [this](size_t file) { return std::pair(places_[file].first, file); });
    lap_ = std::make_shared<Lap>(std::move(files), std::move(order), options_.threads);
    merge_ = std::make_shared<Merge>(places_, spaces_, options_);
}

void Feed::open() {
    for (size_t i = 0; i < files_.size(); ++i) {
        files_[i].end.description = lap_->source(i)->open();
    }
}

void Feed::restart() {
    counters_ = counters();
    responses_ = responses();
    begin_lap();
}

bool Feed::read(Batch& batch) {
    batch.clear(); // lets go of the chunk, which may be used again
    Step step = merge_->next(batch);
    while (batch.queries.empty() && step == Step::kStarved) {
        give(lap_->read_now(merge_->wanted()));
        step = merge_->next(batch);
    }
    return !batch.queries.empty();
}

Feed::Step Feed::next(Batch& batch) {
    while (true) {
        const Step step = merge_->next(batch);
        starved_ = step == Step::kStarved;
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
        files_[merge_->wanted()].end = chunk->end;
    }
    merge_->give(std::move(chunk));
}

bool Feed::waits_for_pipe() const { return starved_ && files_[merge_->wanted()].live; }

std::uint64_t Feed::responses() const { return responses_ + merge_->responses(); }

bool Feed::ready() const { return !starved_ || lap_->has(merge_->wanted()); }

Feed::Work Feed::pick(std::optional<size_t> wanted) {
    const auto file = lap_->pick(wanted);
    return file ? Work([lap = lap_.get(), file = *file] { lap->run(file); }) : Work();
}

Feed::Work Feed::pick() { return pick(starved_ ? std::optional(merge_->wanted()) : std::nullopt); }

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

} // namespace reprise::trace
