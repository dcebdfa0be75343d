#pragma once
#include "core/base/error.hh"

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <utility>

namespace reprise {

/// Memory of mmap. Owns it.
class Mapping {
public:
    Mapping() = default;

    /// Shared with `fd` at `offset`, or anonymous where fd is negative; filled at once. Throws
    /// SystemError(attempt).
    Mapping(size_t size, int fd, size_t offset, const char* attempt,
            int protection = PROT_READ | PROT_WRITE)
        : size_(size) {
        const int flags = MAP_POPULATE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
        void* memory = mmap(nullptr, size, protection, flags, fd, static_cast<off_t>(offset));
        if (memory == MAP_FAILED) {
            throw SystemError(attempt);
        }
        memory_ = static_cast<std::uint8_t*>(memory);
    }

    Mapping(Mapping&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), size_(other.size_) {}

    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(size_, other.size_);
        return *this;
    }

    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    ~Mapping() {
        if (memory_ != nullptr) {
            munmap(memory_, size_);
        }
    }

    [[nodiscard]] std::uint8_t* at(size_t offset) const { return memory_ + offset; }

private:
    std::uint8_t* memory_ = nullptr;
    size_t size_ = 0;
};

} // namespace reprise
