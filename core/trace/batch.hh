#pragma once
// A run of queries of a trace on their way from reader to writer, so that what a stage costs to
// call is paid once for many queries.

#include "core/base/arena.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace reprise::trace {
class Chunk;
}

namespace reprise {

class Batch {
public:
    // Of a full batch; rules that add some may exceed it.
    static constexpr size_t kQueries = 4096;
    static constexpr size_t kBytes = 4UL << 20U; ///< of messages as read

    Batch() { queries.reserve(kQueries); }

    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    /// Their messages are in memory of this batch only, so that they may be changed in their place.
    std::vector<Query> queries;

    /// Adds one as it was read: its message is in the batch's own memory or in `chunk`.
    void add(const Query& query, const std::shared_ptr<const trace::Chunk>& chunk = nullptr) {
        if (chunk && (chunks_.empty() || chunks_.back() != chunk)) {
            chunks_.push_back(chunk);
        }
        queries.push_back(query);
        bytes_ += query.message.size();
    }

    [[nodiscard]] bool full() const { return queries.size() >= kQueries || bytes_ >= kBytes; }

    /// Memory for a message, good as long as the batch. Not zeroed.
    std::span<std::uint8_t> allocate(size_t size) { return arena_.allocate(size); }

    /// The same with a copy of `bytes` in it.
    std::span<std::uint8_t> copy(Bytes bytes) { return arena_.copy(bytes); }

    /// Empty again; memory is kept for the next use.
    void clear() {
        queries.clear();
        chunks_.clear();
        arena_.clear();
        bytes_ = 0;
    }

private:
    static constexpr size_t kFirst = 1UL << 20U; ///< usual messages of a full batch, twice

    size_t bytes_ = 0; ///< of messages as read
    std::vector<std::shared_ptr<const trace::Chunk>> chunks_;
    Arena arena_{kFirst};
};

/// The message of a query in a batch, to be changed in its place.
inline std::span<std::uint8_t> writable(Bytes message) {
    return {const_cast<std::uint8_t*>(message.data()), message.size()};
}

} // namespace reprise
