#pragma once
// A batch on its way from the inputs to the output, with what belongs to it.

#include "core/trace/chunk.hh"
#include "mutator/rules/engine/rule.hh"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace reprise::mutator {

struct BatchJob {
    Batch batch;
    /// Messages of the batch's items lie here or in the batch. Each is in one item only, so rules
    /// may change it in its place.
    std::vector<std::shared_ptr<const trace::Chunk>> memory;
    size_t message_bytes = 0; ///< as read
    std::string bytes;        ///< of the output, once encoded
    bool flush = false;       ///< a reader may be waiting for it: keep nothing back
    bool last = false;

    static constexpr size_t kBytes = 4UL << 20U; ///< of messages in a full batch of large ones

    [[nodiscard]] bool full() const {
        return batch.items.size() >= Batch::kQueries || message_bytes >= kBytes;
    }

    /// Empty again; memory is kept for the next use.
    void clear() {
        batch.clear();
        memory.clear();
        bytes.clear();
        message_bytes = 0;
        flush = last = false;
    }
};

} // namespace reprise::mutator
