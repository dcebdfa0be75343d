#include "core/base/output_file.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace reprise {
namespace {

constexpr size_t kBufferSize = 256UL << 10U;
constexpr std::uint64_t kRoomAtOnce = 256UL << 10U; ///< fewer system calls

FileDescriptor open_file(const std::string& path, AppendFile::Existing existing) {
    const int how = existing == AppendFile::Existing::kRefuse ? O_EXCL : O_TRUNC;
    return FileDescriptor(check(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0644),
                                ("create " + path).c_str()));
}

/// Takes room on the disk behind the end of a file without changing its size; returns an errno, or
/// 0 also where the file system cannot do that.
int take_room(int fd, std::uint64_t from, std::uint64_t size) {
    int error = 0;
    do {
        error = ::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                            static_cast<off_t>(size)) == 0
                    ? 0
                    : errno;
    } while (error == EINTR);
    const bool able = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
    return able ? error : 0;
}

/// Waits until all is on the disk if asked, gives back room that was taken, and closes. `size` is
/// that of the file.
void close_for_good(FileDescriptor& file, std::uint64_t size, const std::string& path, bool wait) {
    // A pipe or a device has no room to give back and nothing to synchronize.
    const bool trimmed = ::ftruncate(file.get(), static_cast<off_t>(size)) == 0 || errno == EINVAL;
    const bool synced =
        trimmed && (!wait || ::fsync(file.get()) == 0 || errno == EINVAL || errno == EROFS);
    if (!synced || ::close(file.release()) != 0) {
        throw SystemError("write " + path);
    }
}

void write_all(int fd, Bytes data, const std::string& path) {
    while (!data.empty()) {
        const ssize_t written = ::write(fd, data.data(), data.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            throw SystemError("write " + path);
        }
        data = data.subspan(static_cast<size_t>(written));
    }
}

/// A new file, even if something else is in its place.
FileDescriptor create(const std::string& part, const std::string& path) {
    std::remove(part.c_str());
    return FileDescriptor(check(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644),
                                ("write " + path).c_str()));
}

} // namespace

AppendFile::AppendFile(std::string path, Existing existing)
    : path_(std::move(path)), file_(open_file(path_, existing)) {
    buffer_.reserve(kBufferSize);
}

AppendFile::~AppendFile() {
    if (file_.valid() && reserved_ > size_) {
        // Nothing depends on it; a descriptor that refuses keeps the room until the file goes.
        static_cast<void>(::ftruncate(file_.get(), static_cast<off_t>(size_)) == 0);
    }
}

void AppendFile::append(Bytes data) {
    if (buffer_.size() + data.size() > kBufferSize) {
        flush();
    }
    buffer_.insert(buffer_.end(), data.begin(), data.end());
}

void AppendFile::append(std::string_view text) { append(bytes_of(text)); }

void AppendFile::flush() {
    write_all(file_.get(), buffer_, path_);
    size_ += buffer_.size();
    buffer_.clear();
}

void AppendFile::reserve(std::uint64_t bytes) {
    const std::uint64_t from = std::max(reserved_, size_);
    const std::uint64_t wanted = size_ + buffer_.size() + bytes;
    if (wanted <= from) {
        return;
    }
    reserved_ = std::max(wanted, from + kRoomAtOnce);
    int error = take_room(file_.get(), from, reserved_ - from);
    if (error != 0) {
        reserved_ = wanted;
        error = take_room(file_.get(), from, wanted - from);
    }
    if (error != 0) {
        reserved_ = from;
        throw SystemError("take room for " + path_, error);
    }
}

void AppendFile::close() {
    flush();
    close_for_good(file_, size_, path_, true);
}

void write_whole(const std::string& path, std::string_view text) {
    ReservedFile(path, 0).write(text, false);
}

ReservedFile::ReservedFile(std::string path, std::uint64_t size)
    : path_(std::move(path)), part_(path_ + ".part"), file_(create(part_, path_)) {
    if (const int error = take_room(file_.get(), 0, size); error != 0) {
        std::remove(part_.c_str());
        throw SystemError("take room for " + path_, error);
    }
    size_ = size;
}

ReservedFile::~ReservedFile() {
    if (!written_) {
        std::remove(part_.c_str()); // half a file helps nobody, least of all on a full disk
    }
}

void ReservedFile::grow(std::uint64_t size) {
    if (size > size_ && take_room(file_.get(), size_, size - size_) == 0) {
        size_ = size;
    }
}

void ReservedFile::write(std::string_view text, bool wait) {
    write_all(file_.get(), bytes_of(text), path_);
    close_for_good(file_, text.size(), path_, wait);
    check(std::rename(part_.c_str(), path_.c_str()), ("write " + path_).c_str());
    written_ = true;
}

} // namespace reprise
