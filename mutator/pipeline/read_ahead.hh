#pragma once
// Which file is read next, when several threads read several files.

#include "core/trace/chunk.hh"
#include "core/trace/chunk_reader.hh"

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace reprise::mutator {

/// Chunks that were read and wait for the merge. All calls may come from any thread.
///
/// The files in use are read a few chunks ahead. Of the files that come next, in the order of their
/// first packets, so many are read ahead as there are threads, until kAheadBytes wait.
class ReadAhead {
public:
    static constexpr size_t kChunksAhead = 4;           ///< of a file in use
    static constexpr size_t kAheadBytes = 256UL << 20U; ///< of chunks that wait, all files together

    struct File {
        std::unique_ptr<trace::ChunkSource> source;
        bool live = false; ///< a pipe: reading it may wait, so only when it must be
    };

    /// `order`: the files in the order of their first packets. With `threads` of 1 nothing is read
    /// before it is wanted.
    ReadAhead(std::vector<File> files, std::vector<size_t> order, unsigned threads);

    /// A file that is to be read now, `wanted` first; it must be handed to run(). Nothing where all
    /// that may be read is being read.
    std::optional<size_t> pick(std::optional<size_t> wanted);

    /// Reads a chunk.
    void run(size_t file);

    [[nodiscard]] bool has(size_t file) const;

    /// The next chunk of a file, if there is one; from now on the file is in use.
    std::shared_ptr<trace::Chunk> take(size_t file);

    [[nodiscard]] bool live(size_t file) const { return files_[file].live; }

private:
    struct State {
        std::unique_ptr<trace::ChunkSource> source;
        bool live = false;
        bool busy = false;
        bool in_use = false;
        bool ended = false;
        std::deque<std::shared_ptr<trace::Chunk>> ready;
    };

    [[nodiscard]] bool readable(const State& file) const;
    [[nodiscard]] bool may_run_ahead(const State& file, size_t ahead) const;
    std::optional<size_t> pick_ahead();

    std::vector<State> files_;
    std::vector<size_t> order_;
    size_t first_ = 0; ///< files of order_ before it have ended
    unsigned threads_;
    size_t waiting_bytes_ = 0;
    mutable std::mutex mutex_;
};

} // namespace reprise::mutator
