#pragma once
// A file or pipe, chunk by chunk. Chunks of different files may be read by different threads at the
// same time.

#include "core/base/clock.hh"
#include "core/trace/capture/source.hh"
#include "core/trace/chunk.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace reprise::trace {

/// Opens a trace by content; "-" is standard input. Throws TraceError.
std::unique_ptr<TraceSource> open_trace(const std::string& path);

class ChunkSource {
public:
    ChunkSource() = default;
    virtual ~ChunkSource() = default;
    ChunkSource(const ChunkSource&) = delete;
    ChunkSource& operator=(const ChunkSource&) = delete;

    /// The next chunk; not to be called after the last. A live source may give an empty one, when
    /// nothing has come for a while.
    virtual std::shared_ptr<Chunk> read() = 0;

    /// Opens its file now, and returns the source's description. Throws TraceError. Without it the
    /// first read() opens the file, and one that cannot be opened ends at once.
    virtual std::string open() { return {}; }

    /// Of a file that is no capture, before its end.
    [[nodiscard]] virtual Counters counters() const { return {}; }
};

/// Closes its file at the end.
class ChunkReader final : public ChunkSource {
public:
    ChunkReader(std::string path, const ReaderOptions& options, ChunkOptions chunks = {});

    std::shared_ptr<Chunk> read() override;

    std::string open() override;

    [[nodiscard]] Counters counters() const override;

    /// Whether it has messages of another form than a capture, and has not ended.
    [[nodiscard]] bool has_messages() const { return source_ && !source_->capture(); }

    /// Finds the next packet or message, waiting for it; false at the end.
    bool fetch();

    /// Takes over what fetch() found.
    void put(Chunk& chunk);

    /// Latest time of all that was put, also of what was left out.
    [[nodiscard]] Nanoseconds seen() const { return seen_; }

    /// Marks the file's end in its last chunk, and closes it.
    void finish(Chunk& chunk);

private:
    std::shared_ptr<Chunk> empty_chunk();
    void keep(Chunk& chunk, Chunk::Entry& entry);
    void put_packet(Chunk& chunk);
    void put_message(Chunk& chunk);
    void count_records(Chunk& chunk);

    std::string path_;
    bool closes_; ///< that other forms hold are kept
    ChunkOptions chunks_;
    DnsPorts ports_;
    std::unique_ptr<TraceSource> source_;
    bool tried_ = false;  ///< to open
    std::string refused_; ///< why that failed
    Nanoseconds key_ = std::numeric_limits<Nanoseconds>::min();
    Nanoseconds seen_ = std::numeric_limits<Nanoseconds>::min();
    Packet packet_;               ///< read last, where it is a capture
    Query query_;                 ///< else
    std::uint64_t records_ = 0;   ///< counted so far
    std::shared_ptr<Chunk> used_; ///< the chunk read last, where chunks are used again
};

/// A pipe that may stand still for a while: what has come is handed on all the same. Reads in a
/// thread of its own, because a source says only by waiting that it has no more for now. A chunk is
/// handed on when it is full, or when its first message is 20 ms old; an empty one where nothing
/// has come for a tenth of a second. Whoever is destroyed before the end leaves a thread behind
/// that ends with its pipe's next message.
std::shared_ptr<ChunkSource> read_live(const std::string& path, const ReaderOptions& options,
                                       ChunkOptions chunks);

} // namespace reprise::trace
