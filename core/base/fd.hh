#pragma once
#include "core/base/error.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace reprise {

/// Owns one file descriptor. Movable, not copyable; the destructor closes and never throws.
class FileDescriptor {
public:
    FileDescriptor() = default;

    explicit FileDescriptor(int fd) : fd_(fd) {}

    FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

    FileDescriptor& operator=(FileDescriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }

    ~FileDescriptor() { reset(); }

    [[nodiscard]] int get() const { return fd_; }

    [[nodiscard]] bool valid() const { return fd_ >= 0; }

    /// Gives the descriptor away; this object owns nothing afterward.
    int release() { return std::exchange(fd_, -1); }

    void reset();

private:
    int fd_ = -1;
};

/// Raises the soft limit of open descriptors to the hard limit and returns it.
size_t raise_descriptor_limit();

/// Sets O_NONBLOCK. Throws SystemError.
void set_nonblocking(int fd);

/// Throws UsageError where a trace that was asked for is not there or is a folder. "-" is standard
/// input. Nothing is opened, for it may be a pipe.
void demand_trace(const std::string& path);

/// Takes a name in the abstract namespace of Unix sockets until the descriptor is closed: keeps
/// processes of one network namespace apart, and ends also with a killed one. Not valid where
/// another process has it. Any user can take such a name, so only holders that are root, `nobody`
/// or this process's user count: if another user has it, that is logged and the descriptor is valid
/// without the name. Throws SystemError.
FileDescriptor take_name(const std::string& name);

/// Memory of mmap. Owns it.
class Mapping {
public:
    Mapping() = default;

    /// Shared with `fd` at `offset`, or anonymous where fd is negative; filled at once. Throws
    /// SystemError(attempt).
    Mapping(size_t size, int fd, size_t offset, const char* attempt,
            int protection = PROT_READ | PROT_WRITE) {
        const int flags = MAP_POPULATE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
        void* memory = mmap(nullptr, size, protection, flags, fd, static_cast<off_t>(offset));
        if (memory == MAP_FAILED) {
            throw SystemError(attempt);
        }
        memory_ = {static_cast<std::uint8_t*>(memory), Unmap{size}};
    }

    [[nodiscard]] std::uint8_t* at(size_t offset) const { return memory_.get() + offset; }

private:
    struct Unmap {
        size_t size;

        void operator()(std::uint8_t* memory) const { munmap(memory, size); }
    };

    std::unique_ptr<std::uint8_t, Unmap> memory_;
};

} // namespace reprise
