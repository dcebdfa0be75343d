#include "querier/schedule/ended_queries.hh"

#include "core/base/clock.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <sys/mman.h>

namespace reprise::querier {
namespace {

/// Milliseconds modulo 2^32; compared by signed difference.
std::uint32_t to_ms(Nanoseconds time) { return static_cast<std::uint32_t>(time / kMillisecond); }

/// Zero bytes in large pages where the kernel has some: keys are spread over all of them.
void* zeroed(size_t size) {
    constexpr size_t kLargePage = 2UL << 20U;
    const size_t alignment = size >= kLargePage ? kLargePage : 64;
    void* const memory =
        std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    if (size >= kLargePage) {
        madvise(memory, size, MADV_HUGEPAGE);
    }
    std::memset(memory, 0, size);
    return memory;
}

} // namespace

EndedQueries::EndedQueries(Nanoseconds linger, unsigned bits)
    : linger_ms_(to_ms(linger)), set_mask_((std::uint64_t{1} << bits) / kWays - 1),
      entries_(static_cast<Entry*>(zeroed((size_t{1} << bits) * sizeof(Entry)))) {}

bool EndedQueries::expired(const Entry& entry, std::uint32_t now_ms) {
    return entry.key == 0 || static_cast<std::int32_t>(entry.expires_ms - now_ms) <= 0;
}

void EndedQueries::add(std::uint64_t key, bool answered, Nanoseconds now) {
    key = std::max<std::uint64_t>(key, 1);
    const std::uint32_t now_ms = to_ms(now);
    const std::span set(set_of(key), kWays);
    auto entry = std::ranges::find(set, key, &Entry::key);
    if (entry == set.end()) {
        // An empty or expired place has the most negative time left, so the smallest is the one to
        // take.
        entry = std::ranges::min_element(set, {}, [now_ms](const Entry& e) {
            return expired(e, now_ms) ? INT32_MIN
                                      : static_cast<std::int32_t>(e.expires_ms - now_ms);
        });
        *entry = {.key = key, .expires_ms = 0, .awaited = 0};
    } else if (expired(*entry, now_ms)) {
        entry->awaited = 0;
    }
    entry->expires_ms = now_ms + linger_ms_;
    entry->awaited += answered ? 0 : 1;
}

EndedQueries::Seen EndedQueries::take(std::uint64_t key, Nanoseconds now) {
    key = std::max<std::uint64_t>(key, 1);
    const std::span set(set_of(key), kWays);
    const auto entry = std::ranges::find(set, key, &Entry::key);
    if (entry == set.end() || expired(*entry, to_ms(now))) {
        return Seen::kUnknown;
    }
    if (entry->awaited > 0) {
        --entry->awaited;
        return Seen::kTimedOut;
    }
    return Seen::kAnswered;
}

} // namespace reprise::querier
