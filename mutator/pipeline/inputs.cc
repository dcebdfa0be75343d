#include "mutator/pipeline/inputs.hh"

#include "core/base/error.hh"
#include "core/trace/batch.hh"
#include "core/trace/feed.hh"
#include "core/trace/merge.hh"
#include "core/wire/query.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

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

double Inputs::share_read() const {
    const double lap = feed_.share_read();
    return laps_ == 1 ? lap : (static_cast<double>(lap_) + lap) / static_cast<double>(laps_);
}

bool Inputs::fill(BatchJob& job) {
    job.flush = flush_;
    Batch& batch = job.batch;
    while (!batch.full()) {
        const size_t begin = batch.queries.size();
        const trace::Merge::Step step = feed_.next(batch);
        take(batch, begin);
        if (step == trace::Merge::Step::kStarved) {
            return feed_.waits_for_pipe() && !batch.queries.empty();
        }
        if (step == trace::Merge::Step::kEnd && !next_lap(batch)) {
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
            progress_.tick(++counts_.queries, share_read());
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

} // namespace reprise::mutator
