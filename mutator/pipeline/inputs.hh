#pragma once
// The traces that are mutated, as batches of queries: merged by time, read several times if asked.

#include "core/base/clock.hh"
#include "core/base/progress.hh"
#include "core/trace/batch.hh"
#include "core/trace/chunk.hh"
#include "core/trace/feed.hh"
#include "core/trace/lap_clock.hh"
#include "core/trace/merge.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::mutator {

/// A batch on its way from the inputs to the output, with what belongs to it.
struct BatchJob {
    Batch batch;
    std::string bytes;  ///< of the output, once encoded
    bool flush = false; ///< a reader may be waiting for it: keep nothing back
    bool last = false;
};

struct InputOptions {
    std::vector<std::string> paths; ///< "-" is standard input
    std::vector<std::uint16_t> ports{53};
    std::uint64_t laps = 1; ///< how often all of them are read
};

struct InputCounts {
    std::uint64_t queries = 0;
    std::uint64_t closes = 0;
    std::uint64_t responses = 0; ///< left out
    std::uint64_t packets = 0;   ///< or rows, or records
    trace::Counters counters;    ///< as the reader's
};

class Inputs {
public:
    /// Looks at the beginning of every file. `threads` that read(). Throws UsageError where a pipe
    /// is to be read more than once.
    Inputs(const InputOptions& options, unsigned threads);

    /// Whether fill() has something to work on. Not while fill() runs.
    [[nodiscard]] bool can_fill() const { return !ended_ && feed_.ready(); }

    /// Adds queries to the job; true when it is to be handed on: it is full, or the last, or a
    /// pipe is to be waited for. One thread at a time. Throws Error at an interrupt.
    bool fill(BatchJob& job);

    /// For the reads that fill() waits for.
    [[nodiscard]] trace::Feed& feed() { return feed_; }

    /// Whether one of them is a pipe.
    [[nodiscard]] bool live() const { return flush_; }

    /// Whole once all is read.
    [[nodiscard]] const InputCounts& counts() const { return counts_; }

    [[nodiscard]] const std::vector<trace::Feed::File>& files() const { return feed_.files(); }

private:
    bool next_lap(Batch& batch);
    void take(Batch& batch, size_t begin);
    void hold_closes(Batch& batch, size_t begin);
    [[nodiscard]] double share_read() const;

    std::uint64_t laps_;
    trace::Feed feed_;
    bool flush_ = false; ///< some input is a pipe
    bool ended_ = false;
    std::uint64_t lap_ = 0;
    std::uint64_t queries_before_ = 0; ///< of the laps before this one
    trace::LapClock clock_;
    std::uint64_t connections_ = 0;     ///< numbers used by the laps before
    std::uint64_t last_connection_ = 0; ///< greatest number of this lap
    std::vector<Query> closes_;         ///< behind the latest query, in a run of several laps
    Progress progress_;
    InputCounts counts_;
};

} // namespace reprise::mutator
