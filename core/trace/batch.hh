#pragma once
// A run of queries of a trace on their way from reader to writer, so that what a stage costs to
// call is paid once for many queries.

#include "core/base/bytes.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

namespace reprise {

class Batch {
public:
    /// Queries of a full batch; rules that add some may exceed it.
    static constexpr size_t kQueries = 4096;

    Batch() { queries.reserve(kQueries); }

    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    /// Their messages are in memory of this batch only, so that they may be changed in their place.
    std::vector<Query> queries;

    /// Memory for a message, good as long as the batch. Not zeroed.
    std::span<std::uint8_t> allocate(size_t size) {
        return {static_cast<std::uint8_t*>(arena_.allocate(size, 1)), size};
    }

    /// The same with a copy of `bytes` in it.
    std::span<std::uint8_t> copy(Bytes bytes) {
        const std::span<std::uint8_t> out = allocate(bytes.size());
        std::ranges::copy(bytes, out.begin());
        return out;
    }

    /// Empty again; memory is kept for the next use.
    void clear() {
        queries.clear();
        arena_.release();
    }

private:
    static constexpr size_t kFirst = 1UL << 20U; ///< usual messages of a full batch, twice

    std::unique_ptr<std::uint8_t[]> first_ = std::make_unique_for_overwrite<std::uint8_t[]>(kFirst);
    std::pmr::monotonic_buffer_resource arena_{first_.get(), kFirst};
};

/// The message of a query in a batch, to be changed in its place.
inline std::span<std::uint8_t> writable(Bytes message) {
    return {const_cast<std::uint8_t*>(message.data()), message.size()};
}

} // namespace reprise
