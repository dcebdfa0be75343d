#include "core/base/whole_file.hh"

#include "core/base/append_file.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace reprise {
namespace {

/// A new file, even if something else is in its place.
FileDescriptor create(const std::string& part, const std::string& path) {
    std::remove(part.c_str());
    return FileDescriptor(check(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644),
                                ("write " + path).c_str()));
}

void rename_to(const std::string& part, const std::string& path) {
    check(std::rename(part.c_str(), path.c_str()), ("write " + path).c_str());
}

} // namespace

void write_whole(const std::string& path, std::string_view text, Durable durable) {
    const std::string part = path + ".part";
    FileDescriptor file = create(part, path);
    try {
        write_all(file.get(), text, path);
        if (durable == Durable::kYes) {
            close_for_good(file, text.size(), path);
        } else if (::close(file.release()) != 0) {
            throw SystemError("write " + path);
        }
        rename_to(part, path);
    } catch (...) {
        std::remove(part.c_str()); // half a file helps nobody, least of all on a full disk
        throw;
    }
}

ReservedFile::ReservedFile(std::string path, std::uint64_t size)
    : path_(std::move(path)), part_(path_ + ".part"), file_(create(part_, path_)) {
    if (const int error = take_room(file_.get(), 0, size); error != 0) {
        file_.reset();
        std::remove(part_.c_str());
        throw SystemError("take room for " + path_, error);
    }
    size_ = size;
}

ReservedFile::~ReservedFile() {
    if (!written_) {
        std::remove(part_.c_str());
    }
}

void ReservedFile::grow(std::uint64_t size) {
    if (size > size_ && take_room(file_.get(), size_, size - size_) == 0) {
        size_ = size;
    }
}

void ReservedFile::write(std::string_view text) {
    write_all(file_.get(), text, path_);
    close_for_good(file_, text.size(), path_);
    rename_to(part_, path_);
    written_ = true;
}

} // namespace reprise
