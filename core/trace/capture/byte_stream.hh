#pragma once
// A file or pipe, decompressed on the way when its content is gz, bz2, xz, zst or lz4, and its
// lines as they come. Memory is constant whatever the ratio.
struct archive;

#include "core/base/bytes.hh"
#include "core/base/fd.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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

    /// Fills `out` with decompressed bytes. Returns their number: less before the end or an error
    /// (see error()).
    size_t read(std::span<std::uint8_t> out);

    /// Bytes that read() gave.
    [[nodiscard]] std::uint64_t offset() const { return offset_; }

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
    bool empty_ = false;    ///< nothing left behind `raw_`
    std::int64_t size_ = 0; ///< of the file; 0 for a pipe
    std::uint64_t offset_ = 0;
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

inline std::string_view text_of(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Removes the byte order mark that some editors put before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

class LineReader {
public:
    static constexpr size_t kLongest = 1U << 20U; ///< bytes of a line

    /// Borrows the stream.
    explicit LineReader(ByteStream& stream) : stream_(&stream) {}

    /// The next line without its end (LF or CRLF), good until the next call. False at the end and
    /// where the stream is broken or a line too long (see trouble()).
    bool next(std::string_view& line);

    /// Whether the next line is here, and neither empty nor a comment.
    [[nodiscard]] bool has_content() const;

    /// Of the line that next() was last called for, from 1.
    [[nodiscard]] std::uint64_t number() const { return number_; }

    /// Whether the stream ended in the line that next() gave: it has no line feed.
    [[nodiscard]] bool unfinished() const { return unfinished_; }

    /// Why reading ended before the end; empty where it did not.
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

private:
    ByteStream* stream_;
    Bytes block_;       ///< of the stream, as far as it was not read
    std::string carry_; ///< of the line, what began in blocks before
    std::uint64_t number_ = 0;
    bool unfinished_ = false;
    std::string trouble_;
};

/// The first line that is neither blank nor a comment (beginning with # or ;); empty where there is
/// none.
std::string_view first_content(std::string_view text);

} // namespace reprise::trace
