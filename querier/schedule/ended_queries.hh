#pragma once
// Keys of queries that ended lately, to tell a late answer (its query timed out) from a duplicate
// (its query was answered) and from an answer to no query.
//
// A table of fixed size, in sets of eight: constant time, no growth, no clearing. A full set
// forgets its oldest key; an answer to a forgotten key counts as unmatched. 16 bytes a key.

#include "core/base/clock.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace reprise::querier {

class EndedQueries {
public:
    enum class Seen : std::uint8_t { kUnknown, kTimedOut, kAnswered };

    /// Room for 2^bits keys, each kept for `linger`.
    explicit EndedQueries(Nanoseconds linger, unsigned bits = 20);

    /// Its key will be added soon: the memory it goes to is fetched meanwhile. Always inline: the
    /// compiler removes calls to a function that only prefetches.
    [[gnu::always_inline]] void prefetch(std::uint64_t key) const {
        const Entry* const set = set_of(std::max<std::uint64_t>(key, 1));
        __builtin_prefetch(set, 1);
        __builtin_prefetch(set + kWays / 2, 1);
    }

    /// A query with this key ended at `now`.
    void add(std::uint64_t key, bool answered, Nanoseconds now);

    /// What ended with this key. A timed-out query counts as answered from then on.
    Seen take(std::uint64_t key, Nanoseconds now);

private:
    struct Entry {
        std::uint64_t key; ///< 0 = empty
        std::uint32_t expires_ms;
        std::uint32_t awaited; ///< timed-out queries of this key whose answer has not come
    };

    struct Free {
        void operator()(Entry* entries) const { std::free(entries); }
    };

    static constexpr size_t kWays = 8;

    [[nodiscard]] Entry* set_of(std::uint64_t key) const {
        return &entries_[(key & set_mask_) * kWays];
    }

    static bool expired(const Entry& entry, std::uint32_t now_ms);

    std::uint32_t linger_ms_;
    std::uint64_t set_mask_;
    std::unique_ptr<Entry[], Free> entries_; ///< 16 MiB in large pages, on cache lines
};

} // namespace reprise::querier
