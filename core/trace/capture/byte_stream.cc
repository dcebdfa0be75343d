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
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/types.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <zconf.h>
#include <zlib.h>

namespace reprise::trace {

namespace {

constexpr size_t kOutput = 256UL << 10U;
constexpr int kGzipOnly = 15 + 16; // the largest window, and a gzip header before it

} // namespace

struct Gunzip::Inflater {
    Inflater() {
        if (inflateInit2(&stream, kGzipOnly) != Z_OK) {
            throw Error("no memory to decompress gzip; free some");
        }
    }

    ~Inflater() { inflateEnd(&stream); }

    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    z_stream stream{};
};

Gunzip::Gunzip() : inflater_(std::make_unique<Inflater>()), out_(kOutput) {}

Gunzip::~Gunzip() = default;

bool Gunzip::begin_member(Bytes in) {
    constexpr std::uint8_t kMagic = 0x1f;
    if (in[0] != kMagic) {
        error_ = fmt::format("what follows member {} of the gzip data is not gzip", members_);
        return false;
    }
    inflateReset(&inflater_->stream);
    inside_ = true;
    return true;
}

void Gunzip::judge(int result) {
    if (result == Z_STREAM_END) {
        inside_ = false;
        ++members_;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
        const char* const told = inflater_->stream.msg;
        const char* const why = told != nullptr ? told : zError(result);
        error_ = fmt::format("member {} of the gzip data is damaged: {}", members_ + 1, why);
    }
}

Bytes Gunzip::next(Bytes& in) {
    z_stream& stream = inflater_->stream;
    while (!in.empty() && error_.empty() && (inside_ || begin_member(in))) {
        const size_t size = std::min<size_t>(in.size(), std::numeric_limits<uInt>::max());
        stream.next_in = const_cast<Bytef*>(in.data()); // only read
        stream.avail_in = static_cast<uInt>(size);
        stream.next_out = out_.data();
        stream.avail_out = static_cast<uInt>(out_.size());
        judge(inflate(&stream, Z_NO_FLUSH));
        in = in.subspan(size - stream.avail_in);
        if (const size_t made = out_.size() - stream.avail_out; made > 0) {
            return Bytes(out_).first(made);
        }
    }
    return {};
}

void Gunzip::finish() {
    if (inside_ && error_.empty()) {
        error_ = fmt::format("member {} of the gzip data is cut", members_ + 1);
    }
}

namespace {

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

std::string compression_name(int code) {
    switch (code) {
    case ARCHIVE_FILTER_BZIP2:
        return "bzip2";
    case ARCHIVE_FILTER_XZ:
        return "xz";
    case ARCHIVE_FILTER_ZSTD:
        return "zstd";
    case ARCHIVE_FILTER_LZ4:
        return "lz4";
    default:
        return {};
    }
}

} // namespace

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
    compression_ = compression_name(archive_filter_code(a, 0));
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
        if (!gunzip_) {
            block_ = std::exchange(raw_, {});
            continue;
        }
        block_ = gunzip_->next(raw_);
        if (block_.empty()) {
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
    return ahead_;
}

Bytes ByteStream::peek_line(size_t most) {
    bool ended = false;
    while (!ended && ahead_.size() < most && next_block_of_content()) {
        const auto end = std::ranges::find(block_, '\n');
        ended = end != block_.end();
        const auto line = static_cast<size_t>(end - block_.begin()) + (ended ? 1U : 0U);
        peek(std::min(most, ahead_.size() + line));
    }
    return ahead_;
}

Bytes ByteStream::next_block() {
    if (ahead_used_ < ahead_.size()) {
        return Bytes(ahead_).subspan(std::exchange(ahead_used_, ahead_.size()));
    }
    next_block_of_content();
    return std::exchange(block_, {});
}

std::int64_t ByteStream::read(std::uint8_t* out, size_t size) {
    size_t done = 0;
    if (ahead_used_ < ahead_.size()) {
        done = std::min(size, ahead_.size() - ahead_used_);
        std::memcpy(out, ahead_.data() + ahead_used_, done);
        ahead_used_ += done;
    }
    while (done < size && next_block_of_content()) {
        const size_t count = std::min(size - done, block_.size());
        std::memcpy(out + done, block_.data(), count);
        block_ = block_.subspan(count);
        done += count;
    }
    return done == 0 && size > 0 && !error_.empty() ? -1 : static_cast<std::int64_t>(done);
}

std::int64_t ByteStream::read_some(std::uint8_t* out, size_t size) {
    if (ahead_used_ < ahead_.size()) {
        return read(out, std::min(size, ahead_.size() - ahead_used_));
    }
    next_block_of_content();
    return read(out, block_.empty() ? size : std::min(size, block_.size()));
}

double ByteStream::share_read() const {
    const auto read = static_cast<double>(archive_filter_bytes(archive_.get(), -1));
    return size_ == 0 ? 0 : std::clamp(read / static_cast<double>(size_), 0.0, 1.0);
}

std::string describe(std::string_view form, const ByteStream& stream) {
    const std::string& compression = stream.compression();
    return fmt::format("{}{}{}", form, compression.empty() ? "" : ", ", compression);
}

} // namespace reprise::trace
