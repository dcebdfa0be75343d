#include "mutator/pipeline/inputs.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/trace/batch.hh"
#include "core/trace/feed.hh"
#include "core/trace/merge.hh"
#include "core/trace/reader.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace reprise::mutator {
namespace {

constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

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

/// The message's bytes for as long as the job lives.
Bytes memory_of(const trace::Merge::Found& found, BatchJob& job) {
    job.message_bytes += found.query.message.size();
    if (found.memory == nullptr) {
        return job.batch.copy(found.query.message);
    }
    if (job.memory.empty() || job.memory.back() != *found.memory) {
        job.memory.push_back(*found.memory);
    }
    return found.query.message;
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
    flush_closes(batch, more ? clock_.next_begin() : kNever);
    if (more) {
        clock_.next_lap();
        connections_ += std::exchange(last_connection_, 0);
        feed_.restart();
    }
    return more;
}

double Inputs::share_read() const {
    const double lap = feed_.share_read();
    return laps_ == 1 ? lap : (static_cast<double>(lap_) + lap) / static_cast<double>(laps_);
}

bool Inputs::fill(BatchJob& job) {
    job.flush = flush_;
    trace::Merge::Found found;
    while (!job.full()) {
        switch (feed_.next(found)) {
        case trace::Merge::Step::kMessage:
            take(found, job);
            break;
        case trace::Merge::Step::kStarved:
            return feed_.waits_for_pipe() && !job.batch.queries.empty();
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
    Query query = found.query;
    last_connection_ = std::max(last_connection_, query.connection);
    query.connection += query.connection == 0 ? 0 : connections_;
    query.time = clock_.shifted(query.time);
    if (query.is_close()) {
        take_close(query, job.batch);
        return;
    }
    flush_closes(job.batch, kNever);
    clock_.note(query.time);
    query.message = memory_of(found, job);
    job.batch.queries.push_back(query);
    progress_.tick(++counts_.queries, share_read());
}

void Inputs::take_close(const Query& query, Batch& batch) {
    ++counts_.closes;
    if (laps_ > 1) {
        closes_.push_back(query);
    } else {
        batch.queries.push_back(query);
    }
}

/// Closes behind a lap's last query come before the next lap's first one.
void Inputs::flush_closes(Batch& batch, Nanoseconds latest) {
    for (Query& query : closes_) {
        query.time = std::min(query.time, latest);
        batch.queries.push_back(query);
    }
    closes_.clear();
}

} // namespace reprise::mutator
