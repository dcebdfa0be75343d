#include "mutator/info/info_retransmits.hh"

#include "core/trace/reader.hh"
#include "core/trace/retransmits.hh"

#include <algorithm>
#include <cstdint>

namespace reprise::mutator {

void RetransmitCounter::add(const trace::Message& message) {
    const auto found = trace::retransmit_key(message.transport, message.source, message.bytes);
    if (!found) {
        return;
    }
    const std::uint64_t key = *found | 1ULL << 63U; // never 0
    auto& kept = buckets_[key % kBuckets].kept;
    const auto known = std::ranges::find(kept, key, &Kept::key);
    if (known != kept.end() && message.time - known->time <= kWindow) {
        ++count_;
    } else if (known != kept.end()) {
        known->time = message.time;
    } else {
        *std::ranges::min_element(kept, {}, &Kept::time) = {.key = key, .time = message.time};
    }
}

} // namespace reprise::mutator
