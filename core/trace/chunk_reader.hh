#pragma once
// A file or pipe, chunk by chunk. Chunks of different files may be read by different threads at the
// same time.

#include "core/base/clock.hh"
#include "core/trace/chunk.hh"
#include "core/trace/opened.hh"
#include "core/trace/reader.hh"
#include "core/trace/reassembly/datagrams.hh"
#include "core/trace/reassembly/packet.hh"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

namespace reprise::trace {

class ChunkSource {
public:
    ChunkSource() = default;
    virtual ~ChunkSource() = default;
    ChunkSource(const ChunkSource&) = delete;
    ChunkSource& operator=(const ChunkSource&) = delete;

    /// The next chunk; not to be called after the last. A live source may give an empty one, when
    /// nothing has come for a while.
    virtual std::shared_ptr<Chunk> read() = 0;
};

/// Opens its file with the first read and closes it at the end. A file that cannot be opened ends
/// at once; nothing is thrown.
class ChunkReader final : public ChunkSource {
public:
    ChunkReader(std::string path, const ReaderOptions& options);

    std::shared_ptr<Chunk> read() override;

    /// Finds the next packet or message, waiting for it; false at the end.
    bool fetch();

    /// Takes over what fetch() found.
    void put(Chunk& chunk);

    /// Marks the file's end in its last chunk, and closes it.
    void finish(Chunk& chunk);

private:
    void open();
    void put_packet(Chunk& chunk);
    void put_message(Chunk& chunk);

    std::string path_;
    ReaderOptions options_;
    DnsPorts ports_;
    Opened opened_;
    bool tried_ = false;  ///< to open
    std::string refused_; ///< why that failed
    Nanoseconds key_ = std::numeric_limits<Nanoseconds>::min();
    Packet packet_;
    Message message_;
};

struct FileHead {
    bool regular = false; ///< can be opened again
    bool capture = false;
    std::optional<Nanoseconds> first; ///< time of the first packet or message, if there is one
};

/// Looks at a file's beginning; a pipe is left alone.
FileHead look_at(const std::string& path, const ReaderOptions& options);

} // namespace reprise::trace
