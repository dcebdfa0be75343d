#pragma once
// The traces that are mutated, as batches of queries: merged by time, read several times if asked.

#include "core/base/clock.hh"
#include "core/trace/chunk.hh"
#include "core/trace/merge.hh"
#include "core/trace/reader.hh"
#include "mutator/output/progress.hh"
#include "mutator/pipeline/batch_job.hh"
#include "mutator/pipeline/laps.hh"
#include "mutator/pipeline/read_ahead.hh"
#include "mutator/rules/engine/batch.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace reprise::mutator {

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

/// One of the paths, once it was read.
struct InputFile {
    std::string path;
    trace::FileEnd end;
};

class Inputs {
public:
    /// Looks at the beginning of every file. `threads` that read(). Throws UsageError where a pipe
    /// is to be read more than once.
    Inputs(const InputOptions& options, unsigned threads);

    /// Whether fill() has something to work on. Not while fill() runs.
    [[nodiscard]] bool can_fill() const;

    /// Adds queries to the job; true when it is to be handed on: it is full, or the last, or a
    /// pipe is to be waited for. One thread at a time. Throws Error at an interrupt.
    bool fill(BatchJob& job);

    /// A read to be carried out by any thread, also while fill() runs; empty where there is none.
    using Read = std::function<void()>;

    /// The next chunk of a file, as ReadAhead::pick(). Not while fill() runs.
    Read pick_read();

    /// Also while fill() runs: what may be read although nothing is wanted.
    Read pick_ahead();

    /// Whether one of them is a pipe.
    [[nodiscard]] bool live() const { return flush_; }

    [[nodiscard]] const InputCounts& counts() const { return counts_; }

    [[nodiscard]] const std::vector<InputFile>& files() const { return files_; }

private:
    void add(const std::string& path);
    void begin_lap();
    static Read read_of(std::shared_ptr<ReadAhead> ahead, std::optional<size_t> wanted);
    bool next_lap(Batch& batch);
    bool feed_merge();
    void take(const trace::Merge::Found& found, BatchJob& job);
    void take_close(Item& item, Batch& batch);
    void flush_closes(Batch& batch, Nanoseconds latest);
    [[nodiscard]] double share_read() const;

    InputOptions options_;
    trace::ReaderOptions reader_options_;
    unsigned threads_;
    std::vector<InputFile> files_;
    std::vector<trace::Merge::File> heads_;
    std::vector<bool> live_;
    size_t spaces_ = 1;
    std::unique_ptr<trace::Merge> merge_;
    /// Of this lap. A read may still be under way on the lap before: it keeps what it reads from.
    std::shared_ptr<ReadAhead> ahead_;
    std::mutex ahead_mutex_; ///< fill() puts another one there while pick_ahead() looks
    bool starved_ = false;
    bool ended_ = false;
    bool flush_ = false; ///< some input is a pipe
    std::uint64_t lap_ = 0;
    std::uint64_t queries_before_ = 0; ///< of the laps before this one
    LapClock clock_;
    std::uint64_t connections_ = 0;     ///< numbers used by the laps before
    std::uint64_t last_connection_ = 0; ///< greatest number of this lap
    std::vector<Item> closes_;          ///< behind the latest query, in a run of several laps
    size_t ended_files_ = 0;
    double share_ = 0; ///< of the latest chunk's file
    Progress progress_;
    InputCounts counts_;
};

} // namespace reprise::mutator
