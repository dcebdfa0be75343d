#include "mutator/rules/engine/batch.hh"

#include "core/base/bytes.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::mutator {

namespace {

/// Enough for the usual messages of a full batch, twice.
constexpr size_t kFirstBytes = 1UL << 20U;

} // namespace

Batch::Batch() : first_(kFirstBytes), arena_(first_.data(), first_.size()) {
    items.reserve(kQueries);
}

std::span<std::uint8_t> Batch::allocate(size_t size) {
    return {static_cast<std::uint8_t*>(arena_.allocate(size, 1)), size};
}

std::span<std::uint8_t> Batch::copy(Bytes bytes) {
    const std::span<std::uint8_t> out = allocate(bytes.size());
    std::ranges::copy(bytes, out.begin());
    return out;
}

void Batch::clear() {
    items.clear();
    arena_.release();
}

Query query_of(const Item& item, std::uint64_t sequence) {
    return {.sequence = sequence,
            .trace_time = item.time,
            .due = 0,
            .source = item.source,
            .destination = item.destination,
            .source_id = 0,
            .connection = item.connection,
            .transport = item.transport,
            .rtt_class = item.rtt_class,
            .idle_class = item.idle_class,
            .message = item.message};
}

} // namespace reprise::mutator
