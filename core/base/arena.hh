#pragma once
#include "core/base/bytes.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>

namespace reprise {

/// Memory that is given out in order and given back all at once. Not zeroed.
class Arena {
public:
    /// `first`: bytes of the first block, which is kept; others are larger.
    explicit Arena(size_t first)
        : first_(std::make_unique_for_overwrite<std::uint8_t[]>(first)),
          memory_(first_.get(), first) {}

    std::span<std::uint8_t> allocate(size_t size, size_t alignment = 1) {
        return {static_cast<std::uint8_t*>(memory_.allocate(size, alignment)), size};
    }

    /// The same with a copy of `bytes` in it.
    std::span<std::uint8_t> copy(Bytes bytes) {
        const std::span<std::uint8_t> out = allocate(bytes.size());
        copy_bytes(bytes, out.data());
        return out;
    }

    void clear() { memory_.release(); }

private:
    std::unique_ptr<std::uint8_t[]> first_;
    std::pmr::monotonic_buffer_resource memory_;
};

} // namespace reprise
