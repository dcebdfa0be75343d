#include "core/base/append_file.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
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

} // namespace

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

void close_for_good(FileDescriptor& file, std::uint64_t size, const std::string& path) {
    // A pipe or a device has no room to give back and nothing to synchronize.
    const bool trimmed = ::ftruncate(file.get(), static_cast<off_t>(size)) == 0 || errno == EINVAL;
    const bool synced = trimmed && (::fsync(file.get()) == 0 || errno == EINVAL || errno == EROFS);
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

void write_all(int fd, std::string_view text, const std::string& path) {
    write_all(fd, bytes_of(text), path);
}

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
    close_for_good(file_, size_, path_);
}

} // namespace reprise
