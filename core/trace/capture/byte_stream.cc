#include "core/trace/capture/byte_stream.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/signals.hh"
#include "core/trace/reassembly/options.hh"

#include <archive.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/types.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>
#include <zconf.h>
#include <zlib.h>

namespace reprise::trace {

namespace {

constexpr size_t kOutput = 256UL << 10U;
constexpr int kGzipOnly = 15 + 16; // the largest window, and a gzip header before it
constexpr size_t kBlockSize = 256UL << 10U;

FileDescriptor open_file(const std::string& path) {
    if (path == "-") {
        return FileDescriptor(check(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), "dup standard input"));
    }
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) {
        throw TraceError(fmt::format("cannot open trace {}: {}; check the path and its permissions",
                                     path, std::generic_category().message(errno)));
    }
    return file;
}

/// Without the carriage return that an editor of another system left.
std::string_view without_return(std::string_view line) {
    return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

/// Bytes up to a line feed; all of them where there is none.
size_t line_size(Bytes block) {
    const void* end = block.empty() ? nullptr : std::memchr(block.data(), '\n', block.size());
    return end == nullptr
               ? block.size()
               : static_cast<size_t>(static_cast<const std::uint8_t*>(end) - block.data());
}

} // namespace

/// Decompresses gzip (RFC 1952), one member after the other. Our own loop around zlib, because
/// libarchive gives up the last 64 KiB before a cut and takes what follows a member and is none for
/// the end.
class ByteStream::Gunzip {
public:
    Gunzip() : out_(kOutput) {
        if (inflateInit2(&stream_, kGzipOnly) != Z_OK) {
            throw Error("no memory to decompress gzip; free some");
        }
    }

    ~Gunzip() { inflateEnd(&stream_); }

    Gunzip(const Gunzip&) = delete;
    Gunzip& operator=(const Gunzip&) = delete;

    /// Whether `head` begins a member.
    static bool fits(Bytes head) {
        return head.size() >= 3 && head[0] == kMagic && head[1] == 0x8b && head[2] == 8;
    }

    /// Takes bytes off the front of `in` and yields what they make, good until the next call.
    /// Empty where all was taken, and on an error.
    Bytes next(Bytes& in) {
        while (!in.empty() && error_.empty() && (inside_ || begin_member(in))) {
            const size_t size = std::min<size_t>(in.size(), std::numeric_limits<uInt>::max());
            stream_.next_in = const_cast<Bytef*>(in.data()); // only read
            stream_.avail_in = static_cast<uInt>(size);
            stream_.next_out = out_.data();
            stream_.avail_out = static_cast<uInt>(out_.size());
            judge(inflate(&stream_, Z_NO_FLUSH));
            in = in.subspan(size - stream_.avail_in);
            if (const size_t made = out_.size() - stream_.avail_out; made > 0) {
                return Bytes(out_).first(made);
            }
        }
        return {};
    }

    /// There is no more: an error inside a member.
    void finish() {
        if (inside_ && error_.empty()) {
            error_ = fmt::format("member {} of the gzip data is cut", members_ + 1);
        }
    }

    /// Empty while nothing went wrong.
    [[nodiscard]] const std::string& error() const { return error_; }

private:
    static constexpr std::uint8_t kMagic = 0x1f;

    bool begin_member(Bytes in) {
        if (in[0] != kMagic) {
            error_ = fmt::format("what follows member {} of the gzip data is not gzip", members_);
            return false;
        }
        inflateReset(&stream_);
        inside_ = true;
        return true;
    }

    void judge(int result) {
        if (result == Z_STREAM_END) {
            inside_ = false;
            ++members_;
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            const char* const why = stream_.msg != nullptr ? stream_.msg : zError(result);
            error_ = fmt::format("member {} of the gzip data is damaged: {}", members_ + 1, why);
        }
    }

    z_stream stream_{};
    std::vector<std::uint8_t> out_;
    bool inside_ = false;       ///< of a member
    std::uint64_t members_ = 0; ///< whole ones
    std::string error_;
};

void ByteStream::ArchiveCloser::operator()(archive* a) const { archive_read_free(a); }

ByteStream::ByteStream(const std::string& path) : file_(open_file(path)) {
    struct stat status{};
    check(fstat(file_.get(), &status), "fstat trace");
    if (S_ISDIR(status.st_mode)) {
        throw TraceError(fmt::format("trace {} is a directory; name a capture file in it", path));
    }
    regular_ = S_ISREG(status.st_mode) && path != "-";
    size_ = S_ISREG(status.st_mode) ? status.st_size : 0;
    open_archive();
}

ByteStream::~ByteStream() = default;

/// libarchive's own reads on after a signal, which may be all that ends a pipe that stands still.
ssize_t ByteStream::read_file(archive* a, void* stream, const void** block) {
    auto& self = *static_cast<ByteStream*>(stream);
    *block = self.input_.data();
    ssize_t got = 0;
    do {
        got = ::read(self.file_.get(), self.input_.data(), self.input_.size());
    } while (got < 0 && errno == EINTR && noted_signal() == 0);
    if (got < 0) {
        archive_set_error(a, errno, "%s", std::generic_category().message(errno).c_str());
    }
    return got;
}

/// Filters are named one by one: no other format or outside program is to touch hostile input.
void ByteStream::open_archive() {
    archive_.reset(archive_read_new());
    archive* a = archive_.get();
    archive_read_support_filter_bzip2(a);
    archive_read_support_filter_xz(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_filter_lz4(a);
    archive_read_support_format_raw(a);
    archive_read_support_format_empty(a);
    archive_entry* entry = nullptr;
    input_.resize(kBlockSize);
    int result = archive_read_open(a, this, nullptr, read_file, nullptr);
    if (result == ARCHIVE_OK) {
        result = archive_read_next_header(a, &entry);
    }
    if (archive_filter_code(a, 0) > ARCHIVE_FILTER_NONE) {
        compression_ = archive_filter_name(a, 0);
    }
    empty_ = result == ARCHIVE_EOF;
    if (result != ARCHIVE_OK && !empty_) {
        note_error();
    } else if (next_raw_block() && Gunzip::fits(raw_)) {
        gunzip_ = std::make_unique<Gunzip>();
        compression_ = "gzip";
    }
}

void ByteStream::note_error() {
    const char* text = archive_error_string(archive_.get());
    error_ = text != nullptr ? text : "unreadable";
}

/// Whether `raw_` has bytes now. Blocks end where the file's reads end, so a pipe is live.
bool ByteStream::next_raw_block() {
    while (raw_.empty() && error_.empty() && !empty_) {
        const void* data = nullptr;
        size_t size = 0;
        std::int64_t offset = 0; // raw content has no holes
        const int result = archive_read_data_block(archive_.get(), &data, &size, &offset);
        if (result == ARCHIVE_OK) {
            raw_ = {static_cast<const std::uint8_t*>(data), size};
        } else if (result == ARCHIVE_EOF) {
            empty_ = true;
            check_end();
        } else {
            note_error();
        }
    }
    return !raw_.empty();
}

/// libarchive takes anything behind compressed data that is not of the same kind for the end.
void ByteStream::check_end() {
    const std::int64_t left = size_ - archive_filter_bytes(archive_.get(), -1);
    if (regular_ && !compression_.empty() && left > 0) {
        error_ = fmt::format("the last {} bytes of the file are not {}", left, compression_);
    }
}

/// Whether `block_` has bytes now.
bool ByteStream::next_block_of_content() {
    while (block_.empty() && error_.empty() && next_raw_block()) {
        block_ = gunzip_ ? gunzip_->next(raw_) : std::exchange(raw_, {});
        if (gunzip_ && block_.empty()) {
            error_ = gunzip_->error();
        }
    }
    if (block_.empty() && gunzip_ && error_.empty()) {
        gunzip_->finish();
        error_ = gunzip_->error();
    }
    return !block_.empty();
}

Bytes ByteStream::peek(size_t size) {
    while (ahead_.size() < size && next_block_of_content()) {
        const size_t count = std::min(size - ahead_.size(), block_.size());
        ahead_.insert(ahead_.end(), block_.begin(), block_.begin() + static_cast<ssize_t>(count));
        block_ = block_.subspan(count);
    }
    return at_hand_ = ahead_;
}

Bytes ByteStream::peek_line(size_t most) {
    for (bool ended = false; !ended && ahead_.size() < most && next_block_of_content();) {
        const size_t line = line_size(block_);
        ended = line < block_.size();
        peek(std::min(most, ahead_.size() + line + (ended ? 1 : 0)));
    }
    return ahead_;
}

Bytes& ByteStream::next_bytes() {
    if (!at_hand_.empty()) {
        return at_hand_;
    }
    next_block_of_content();
    return block_;
}

Bytes ByteStream::next_block() { return std::exchange(next_bytes(), {}); }

size_t ByteStream::read(std::span<std::uint8_t> out) {
    size_t done = 0;
    while (done < out.size()) {
        Bytes& bytes = next_bytes();
        if (bytes.empty()) {
            break;
        }
        const size_t count = std::min(out.size() - done, bytes.size());
        std::memcpy(out.data() + done, bytes.data(), count);
        bytes = bytes.subspan(count);
        done += count;
    }
    offset_ += done;
    return done;
}

double ByteStream::share_read() const {
    const auto read = static_cast<double>(archive_filter_bytes(archive_.get(), -1));
    return size_ == 0 ? 0 : std::clamp(read / static_cast<double>(size_), 0.0, 1.0);
}

std::string_view without_byte_order_mark(std::string_view text) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

bool LineReader::next(std::string_view& line) {
    if (!trouble_.empty()) {
        return false;
    }
    ++number_;
    carry_.clear();
    for (bool whole = false; !whole;) {
        const size_t size = line_size(block_);
        if (carry_.size() + size > kLongest) {
            trouble_ = fmt::format("the line is longer than {} bytes", kLongest);
            return false;
        }
        whole = size < block_.size();
        line = text_of(block_.first(size));
        if (!whole || !carry_.empty()) {
            line = carry_.append(line);
        }
        block_ = whole ? block_.subspan(size + 1) : stream_->next_block();
        if (!whole && block_.empty()) {
            trouble_ = stream_->error();
            if (!trouble_.empty() || carry_.empty()) {
                return false;
            }
            unfinished_ = whole = true;
        }
    }
    line = without_return(line);
    if (number_ == 1) {
        line = without_byte_order_mark(line);
    }
    return true;
}

bool LineReader::has_content() const {
    return !block_.empty() && block_[0] > ' ' && block_[0] != '#' && block_[0] != ';' &&
           line_size(block_) < block_.size();
}

std::string_view first_content(std::string_view text) {
    while (!text.empty()) {
        const size_t size = std::min(text.find('\n'), text.size());
        const std::string_view line = without_return(text.substr(0, size));
        const bool blank = line.find_first_not_of(" \t") == std::string_view::npos;
        if (!blank && line[0] != '#' && line[0] != ';') {
            return line;
        }
        text.remove_prefix(std::min(size + 1, text.size()));
    }
    return {};
}

} // namespace reprise::trace
