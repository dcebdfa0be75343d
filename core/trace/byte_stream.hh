#pragma once
// A file or pipe, decompressed on the way when its content is gz, bz2, xz, zst or lz4. Memory is
// constant whatever the ratio.

#include "core/bytes.hh"
#include "core/fd.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct archive;

namespace reprise::trace {

class ByteStream {
public:
    /// Opens `path`, or standard input for "-". Throws TraceError where there is no such file or it
    /// cannot be read.
    explicit ByteStream(const std::string& path);
    ~ByteStream();
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;

    /// The next at most `size` decompressed bytes; they stay to be read. Fewer at the end.
    Bytes peek(size_t size);

    /// Reads up to `size` decompressed bytes; 0 at the end, negative on an error (see error()).
    std::int64_t read(std::uint8_t* out, size_t size);

    /// Why reading failed; empty while it did not.
    [[nodiscard]] const std::string& error() const { return error_; }

    /// Compression found: "gzip", "bzip2", "xz", "zstd", "lz4", or empty for none.
    [[nodiscard]] const std::string& compression() const { return compression_; }

    /// Share of the file's (compressed) bytes read; 0 for a pipe.
    [[nodiscard]] double share_read() const;

    /// A regular file, which can be opened again.
    [[nodiscard]] bool regular() const { return regular_; }

private:
    void open_archive();
    void note_error();
    std::int64_t read_archive(std::uint8_t* out, size_t size);

    struct ArchiveCloser {
        void operator()(archive* a) const;
    };

    std::string path_;
    FileDescriptor file_;
    bool regular_ = false;
    bool empty_ = false;    ///< no byte at all, compressed or not
    std::int64_t size_ = 0; ///< of the file; 0 for a pipe
    std::unique_ptr<archive, ArchiveCloser> archive_;
    std::string compression_;
    std::string error_;
    std::vector<std::uint8_t> ahead_; ///< peeked and not yet read
    size_t ahead_used_ = 0;
};

} // namespace reprise::trace
