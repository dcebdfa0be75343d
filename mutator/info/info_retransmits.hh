#pragma once
// Clients' retransmits in a trace.

#include "core/base/clock.hh"
#include "core/trace/reader.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::mutator {

/// Counts UDP queries of the same source address, port, id and question within 5 s of trace time
/// after a query that was none itself: what `--collapse-retransmits` would leave out.
///
/// Memory: 16 MiB, a table of 1,048,576 queries in buckets of a cache line each, so that a query
/// costs one access. Where a bucket is full its oldest query is forgotten: beyond about 100,000
/// queries a second some retransmits are missed.
class RetransmitCounter {
public:
    static constexpr Nanoseconds kWindow = 5 * kSecond;

    /// Takes queries, whatever their transport.
    void add(const trace::Message& message);

    [[nodiscard]] std::uint64_t count() const { return count_; }

private:
    struct Kept {
        std::uint64_t key = 0; ///< hash; 0 = none
        Nanoseconds time = 0;
    };

    struct alignas(64) Bucket {
        std::array<Kept, 4> kept;
    };

    static constexpr size_t kBuckets = 1UL << 18U;

    std::vector<Bucket> buckets_ = std::vector<Bucket>(kBuckets);
    std::uint64_t count_ = 0;
};

} // namespace reprise::mutator
