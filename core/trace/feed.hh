#pragma once
// Traces as one stream of messages: files and pipes, merged by time (merge.hh), read in chunks by
// as many threads as there are, and again from the beginning if asked.
//
// A feed has no threads of its own, but for one to wait at each pipe. Either one thread calls
// read() and waits for what it needs; or several share the work: one at a time calls next(), which
// never waits, and the others do what pick() and pick_ahead() give them. What comes out does not
// depend on the number of threads.
//
// The files in use are read a few chunks ahead. Of the files that come next, in the order of their
// first packets, so many are read ahead as there are threads, until kAheadBytes wait.

#include "core/base/address.hh"
#include "core/trace/batch.hh"
#include "core/trace/chunk.hh"
#include "core/trace/merge.hh"
#include "core/trace/reassembly/options.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace reprise::trace {

struct FeedOptions {
    std::vector<std::string> paths; ///< "-" is standard input
    ReaderOptions reader{};
    /// That do the work; 1: nothing is read before it is wanted. 0: by read() alone, which holds
    /// back no message of a pipe.
    unsigned threads = 0;
    /// Queries that are read at once with no threads: few stay in the processor's cache.
    size_t batch = 16;
    Responses responses = Responses::kNone;
    std::function<void(const IpAddress&)> expect{}; ///< as ChunkOptions
};

class Feed {
public:
    static constexpr size_t kChunksAhead = 4;           ///< of a file in use
    static constexpr size_t kAheadBytes = 256UL << 20U; ///< of chunks that wait, all files together

    /// One of the paths, and how it ended once it was read.
    struct File {
        std::string path;
        bool live = false; ///< a pipe: reading it may wait
        FileEnd end;
    };

    /// Looks at the beginning of every file, where there are several.
    explicit Feed(FeedOptions options);

    /// One trace with its responses, as they are, opened now. Throws TraceError.
    explicit Feed(const std::string& path, const ReaderOptions& reader, size_t batch = 16);

    /// Opens all files now, and fills in their descriptions. Throws TraceError where one cannot be
    /// read at all; without this, that is only known from files(). Not with threads.
    void open();

    /// Replaces what is in the batch by what comes next, in order; false at the end. Not with
    /// threads.
    bool read(Batch& batch);

    /// The same for what is left, one by one, until `take` returns false; true at the end.
    bool each(auto&& take) {
        for (Batch batch; read(batch);) {
            if (!std::ranges::all_of(batch.queries, take)) {
                return false;
            }
        }
        return true;
    }

    /// Adds to the batch without waiting (Merge::Step::kStarved). One thread at a time.
    Merge::Step next(Batch& batch);

    /// Begins again, also in the middle. Counts go on.
    void restart();

    /// Whether next() has something to work on. Not while it runs.
    [[nodiscard]] bool ready() const;

    /// A read to be carried out by any thread, also while next() runs; empty where there is none.
    using Work = std::function<void()>;

    /// What next() waits for first. Not while next() runs.
    Work pick();

    /// Also while next() runs: what may be read although nothing is wanted.
    Work pick_ahead();

    /// Whether it is a pipe that next() waits for.
    [[nodiscard]] bool waits_for_pipe() const { return starved_ && files_[merge_->wanted()].live; }

    [[nodiscard]] const std::vector<File>& files() const { return files_; }

    /// Of the only file, or the first.
    [[nodiscard]] const FileEnd& end() const { return files_.front().end; }

    /// Of what was read so far; with threads at the end.
    [[nodiscard]] Counters counters() const;

    [[nodiscard]] std::uint64_t packets() const { return packets_; }

    /// That were left out.
    [[nodiscard]] std::uint64_t responses() const { return responses_ + merge_->responses(); }

    /// Of this lap, roughly, 0 to 1; 0 where it is not known.
    [[nodiscard]] double share_read() const;

    /// Whether a path is a pipe, or another thing that can be read once.
    static bool is_live(const std::string& path);

private:
    class Lap;

    void add(const std::string& path);
    void begin_lap();
    void give(std::shared_ptr<const Chunk> chunk);
    [[nodiscard]] ChunkOptions chunk_options(bool live) const;
    static Work work_of(std::shared_ptr<Lap> lap, std::optional<size_t> wanted);

    FeedOptions options_;
    std::vector<File> files_;
    std::vector<Merge::File> heads_;
    size_t spaces_ = 1;
    std::unique_ptr<Merge> merge_;
    /// A read may still be under way on the lap before: it keeps what it reads from.
    std::shared_ptr<Lap> lap_;
    std::mutex lap_mutex_; ///< restart() puts another one there while pick_ahead() looks
    bool starved_ = false; ///< next() was
    Counters counters_;    ///< of the laps before
    std::uint64_t packets_ = 0;
    std::uint64_t responses_ = 0; ///< but for those that the merge left out
    size_t ended_ = 0;            ///< files, in this lap
    double share_ = 0;            ///< of the latest chunk's file
};

} // namespace reprise::trace
