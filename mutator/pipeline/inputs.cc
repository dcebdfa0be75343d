#include "mutator/pipeline/inputs.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/trace/chunk.hh"
#include "core/trace/chunk_reader.hh"
#include "core/trace/live_reader.hh"
#include "core/trace/merge.hh"
#include "core/trace/reader.hh"
#include "mutator/pipeline/batch_job.hh"
#include "mutator/pipeline/read_ahead.hh"
#include "mutator/rules/engine/batch.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr Nanoseconds kAtOnce = std::numeric_limits<Nanoseconds>::min();
constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

trace::ReaderOptions reader_options(const InputOptions& options) {
    return {.ports = options.ports, .closes = true};
}

/// The bytes belong to one item of one job, whose stages take turns.
std::span<std::uint8_t> writable(Bytes bytes) {
    return {const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

/// The message's bytes for as long as the job lives.
std::span<std::uint8_t> memory_of(const trace::Merge::Found& found, BatchJob& job) {
    job.message_bytes += found.message.bytes.size();
    if (found.memory == nullptr) {
        return job.batch.copy(found.message.bytes);
    }
    if (job.memory.empty() || job.memory.back() != *found.memory) {
        job.memory.push_back(*found.memory);
    }
    return writable(found.message.bytes);
}

} // namespace

Inputs::Inputs(const InputOptions& options, unsigned threads)
    : options_(options), reader_options_(reader_options(options)), threads_(threads),
      progress_("mutate") {
    for (const std::string& path : options.paths) {
        add(path);
    }
    begin_lap();
}

void Inputs::add(const std::string& path) {
    std::error_code ignored;
    const bool live = path == "-" || !std::filesystem::is_regular_file(path, ignored);
    if (live && options_.laps > 1 && (path == "-" || std::filesystem::exists(path, ignored))) {
        throw UsageError(
            fmt::format("{} is a pipe, which is read once; write it to a file to --loop it", path));
    }
    trace::Merge::File file{.first = kAtOnce, .space = 0};
    if (options_.paths.size() > 1) {
        const trace::FileHead head = live ? trace::FileHead{} : look_at(path, reader_options_);
        file.first = live ? kAtOnce : head.first.value_or(kNever);
        file.space = head.capture ? 0 : files_.size() + 1;
        spaces_ = head.capture ? spaces_ : options_.paths.size() + 1;
    }
    heads_.push_back(file);
    live_.push_back(live);
    flush_ |= live;
    files_.push_back({.path = path, .end = {}});
}

void Inputs::begin_lap() {
    std::vector<ReadAhead::File> sources;
    for (size_t i = 0; i < files_.size(); ++i) {
        ReadAhead::File& file = sources.emplace_back();
        file.live = live_[i];
        if (file.live) {
            file.source = std::make_unique<trace::LiveReader>(files_[i].path, reader_options_);
        } else {
            file.source = std::make_unique<trace::ChunkReader>(files_[i].path, reader_options_);
        }
    }
    std::vector<size_t> order(files_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {},
                      [this](size_t file) { return std::pair(heads_[file].first, file); });
    auto ahead = std::make_shared<ReadAhead>(std::move(sources), std::move(order), threads_);
    {
        const std::scoped_lock lock(ahead_mutex_);
        ahead_.swap(ahead);
    }
    merge_ = std::make_unique<trace::Merge>(heads_, spaces_, reader_options_);
}

/// False where this was the last lap: of those asked for, or without a query to repeat.
bool Inputs::next_lap(Batch& batch) {
    for (const auto& [name, count] : merge_->counters()) {
        counts_.counters[name] += count;
    }
    const bool empty = std::exchange(queries_before_, counts_.queries) == counts_.queries;
    const bool more = ++lap_ < options_.laps && !empty;
    flush_closes(batch, more ? clock_.next_begin() : kNever);
    if (more) {
        clock_.next_lap();
        connections_ += std::exchange(last_connection_, 0);
        begin_lap();
    }
    return more;
}

bool Inputs::can_fill() const { return !ended_ && (!starved_ || ahead_->has(merge_->wanted())); }

Inputs::Read Inputs::read_of(std::shared_ptr<ReadAhead> ahead, std::optional<size_t> wanted) {
    const auto file = ahead->pick(wanted);
    return file ? Read([ahead = std::move(ahead), file = *file] { ahead->run(file); }) : Read();
}

Inputs::Read Inputs::pick_read() {
    return read_of(ahead_, starved_ && !ended_ ? std::optional(merge_->wanted()) : std::nullopt);
}

Inputs::Read Inputs::pick_ahead() {
    std::unique_lock lock(ahead_mutex_);
    auto ahead = ahead_;
    lock.unlock();
    return read_of(std::move(ahead), std::nullopt);
}

/// Gives the merge the chunk it waits for; false where that was not read yet.
bool Inputs::feed_merge() {
    const size_t file = merge_->wanted();
    auto chunk = ahead_->take(file);
    if (!chunk) {
        return false;
    }
    counts_.packets += chunk->packets;
    counts_.responses += chunk->responses;
    share_ = chunk->share_read;
    if (chunk->last) {
        ++ended_files_;
        files_[file].end = chunk->end;
    }
    merge_->give(std::move(chunk));
    return true;
}

double Inputs::share_read() const {
    const auto files = static_cast<double>(files_.size() * options_.laps);
    return files == 1 ? share_ : static_cast<double>(ended_files_) / files;
}

bool Inputs::fill(BatchJob& job) {
    starved_ = false;
    job.flush = flush_;
    trace::Merge::Found found;
    while (!job.full()) {
        switch (merge_->next(found)) {
        case trace::Merge::Step::kMessage:
            take(found, job);
            break;
        case trace::Merge::Step::kStarved:
            if (!feed_merge()) {
                starved_ = true;
                return ahead_->live(merge_->wanted()) && !job.batch.items.empty();
            }
            break;
        case trace::Merge::Step::kEnd:
            if (!next_lap(job.batch)) {
                job.last = ended_ = true;
                return true;
            }
        }
    }
    return true;
}

void Inputs::take(const trace::Merge::Found& found, BatchJob& job) {
    const trace::Message& message = found.message;
    if (message.response) {
        ++counts_.responses;
        return;
    }
    Item item{.time = message.time,
              .source = message.source,
              .destination = message.destination,
              .connection = message.connection == 0 ? 0 : message.connection + connections_,
              .transport = message.transport,
              .rtt_class = message.rtt_class,
              .idle_class = message.idle_class,
              .message = {}};
    last_connection_ = std::max(last_connection_, message.connection);
    if (message.closes) {
        take_close(item, job.batch);
        return;
    }
    flush_closes(job.batch, kNever);
    item.time = clock_.query(message.time);
    item.message = memory_of(found, job);
    job.batch.items.push_back(item);
    progress_.tick(++counts_.queries, share_read());
}

void Inputs::take_close(Item& item, Batch& batch) {
    ++counts_.closes;
    item.time = clock_.other(item.time);
    if (options_.laps > 1) {
        closes_.push_back(item);
    } else {
        batch.items.push_back(item);
    }
}

/// Closes behind a lap's last query come before the next lap's first one.
void Inputs::flush_closes(Batch& batch, Nanoseconds latest) {
    for (Item& item : closes_) {
        item.time = std::min(item.time, latest);
        batch.items.push_back(item);
    }
    closes_.clear();
}

} // namespace reprise::mutator
