#pragma once
// Traces as one stream of messages: files and pipes, merged by time, read in chunks by as many
// threads as there are, or by one and again from the beginning if asked.
//
// Files are merged by the time at their head, and files with the same time in the order in which
// they were given; that is the same as by the latest time each has shown so far, which Chunk's
// entries carry. The packets of all captures meet in one Assembler, so that a TCP stream or a
// datagram whose parts lie in different files is put together. Because entries come in the order of
// their keys, whoever read which chunk when makes no difference.
//
// A feed has no threads of its own, but for one to wait at each pipe. Either one thread calls
// read() and waits for what it needs; or several share the work: one at a time calls next(), which
// never waits, and the others do what pick() and pick_ahead() give them. What comes out does not
// depend on the number of threads.
//
// A file is wanted only when the merge has come to its first time, so that of thousands of rotated
// files few are open. The files in use are read a few chunks ahead. Of the files that come next, in
// the order of their first packets, so many are read ahead as there are threads, until kAheadBytes
// wait.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/trace/batch.hh"
#include "core/trace/chunk.hh"
#include "core/trace/reassembly/options.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

    enum class Step : std::uint8_t {
        kFull,    ///< the batch is
        kStarved, ///< a chunk is needed that is not read yet
        kEnd,
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

    /// Adds to the batch without waiting. One thread at a time.
    Step next(Batch& batch);

    /// Begins again, also in the middle. Counts go on. Not with threads.
    void restart();

    /// Whether next() has something to work on. Not while it runs.
    [[nodiscard]] bool ready() const;

    /// A read to be carried out by any thread, also while next() runs; empty where there is none.
    using Work = std::function<void()>;

    /// What next() waits for first. Not while next() runs.
    Work pick();

    /// Also while next() runs: what may be read although nothing is wanted.
    Work pick_ahead() { return pick(std::nullopt); }

    /// Whether it is a pipe that next() waits for.
    [[nodiscard]] bool waits_for_pipe() const;

    [[nodiscard]] const std::vector<File>& files() const { return files_; }

    /// Whether one of them is a pipe.
    [[nodiscard]] bool live() const { return std::ranges::any_of(files_, &File::live); }

    /// Of the only file, or the first.
    [[nodiscard]] const FileEnd& end() const { return files_.front().end; }

    /// Of what was read so far; with threads at the end.
    [[nodiscard]] Counters counters() const;

    [[nodiscard]] std::uint64_t packets() const { return packets_; }

    /// That were left out.
    [[nodiscard]] std::uint64_t responses() const;

    /// Of the only file, in this lap, roughly, 0 to 1; 0 where it is not known.
    [[nodiscard]] double share_read() const { return share_; }

private:
    class Lap;
    class Merge;

    /// Of a file in the merge.
    struct Place {
        Nanoseconds first = 0; ///< not later than the key of its first entry
        /// Files of one space number their connections together: all captures, and each other file.
        size_t space = 0;
    };

    void add(const std::string& path);
    void begin_lap();
    void give(std::shared_ptr<const Chunk> chunk);
    Work pick(std::optional<size_t> wanted);

    FeedOptions options_;
    std::vector<File> files_;
    std::vector<Place> places_;
    size_t spaces_ = 1; ///< number of them
    std::shared_ptr<Merge> merge_;
    std::shared_ptr<Lap> lap_;
    bool starved_ = false; ///< next() was
    Counters counters_;    ///< of the laps before
    std::uint64_t packets_ = 0;
    std::uint64_t responses_ = 0; ///< but for those that the merge left out
    double share_ = 0;            ///< read of the latest chunk's file
};

} // namespace reprise::trace
