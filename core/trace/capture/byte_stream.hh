#pragma once
// A file or pipe, decompressed on the way when its content is gz, bz2, xz, zst or lz4. Memory is
// constant whatever the ratio.
struct archive;

#include "core/base/bytes.hh"
#include "core/base/fd.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace reprise::trace {

class ByteStream {
public:
    /// Opens `path`, or standard input for "-". Throws TraceError where there is no such file or it
    /// cannot be read.
    explicit ByteStream(const std::string& path);

    ~ByteStream();
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;

    /// The first at most `size` decompressed bytes, before any are read; they stay to be read.
    /// Fewer at the end.
    Bytes peek(size_t size);

    /// What was peeked so far and then the next line, but no more than `most` bytes; as much again
    /// at the end. For live pipes, which may have no more for now.
    Bytes peek_line(size_t most);

    /// Reads `size` decompressed bytes, fewer before the end or an error; 0 at the end, negative on
    /// an error (see error()).
    std::int64_t read(std::uint8_t* out, size_t size);

    /// As read(), but what is at hand is enough: waits only where there is nothing.
    std::int64_t read_some(std::uint8_t* out, size_t size);

    /// What is at hand, or what comes next where nothing is; waits for no more than that. Empty at
    /// the end and on an error. Good until the next call of any member.
    Bytes next_block();

    /// Why reading failed; empty while it did not.
    [[nodiscard]] const std::string& error() const { return error_; }

    /// Compression found: "gzip", "bzip2", "xz", "zstd", "lz4", or empty for none.
    [[nodiscard]] const std::string& compression() const { return compression_; }

    /// Share of the file's (compressed) bytes read; 0 for a pipe.
    [[nodiscard]] double share_read() const;

    /// A regular file, which can be opened again.
    [[nodiscard]] bool regular() const { return regular_; }

private:
    static ssize_t read_file(archive* a, void* stream, const void** block);
    void open_archive();
    void note_error();
    bool next_raw_block();
    bool next_block_of_content();
    Bytes& next_bytes();
    void check_end();

    class Gunzip;

    struct ArchiveCloser {
        void operator()(archive* a) const;
    };

    FileDescriptor file_;
    bool regular_ = false;
    bool empty_ = false;              ///< nothing left behind `raw_`
    std::int64_t size_ = 0;           ///< of the file; 0 for a pipe
    std::vector<std::uint8_t> input_; ///< as the file has it
    std::unique_ptr<archive, ArchiveCloser> archive_;
    std::string compression_;
    std::string error_;
    std::vector<std::uint8_t> ahead_; ///< peeked, before anything was read
    std::unique_ptr<Gunzip> gunzip_;  ///< where the content is gzip
    Bytes at_hand_;                   ///< of `ahead_`, as far as it was not read
    Bytes raw_;   ///< the last block of what libarchive yields, as far as it was not taken
    Bytes block_; ///< behind `ahead_`: the last block of content, as far as it was not read
};

/// "text, gzip": the form, and how the stream is compressed.
std::string describe(std::string_view form, const ByteStream& stream);

} // namespace reprise::trace
