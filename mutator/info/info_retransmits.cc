#include "mutator/info/info_retransmits.hh"

#include "core/base/address.hh"
#include "core/dns/message.hh"
#include "core/trace/reader.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace reprise::mutator {
namespace {

/// Nothing where the question cannot be read.
std::optional<std::uint64_t> key_of(const trace::Message& message) {
    const auto header = parse_header(message.bytes);
    const auto question = parse_question(message.bytes);
    if (!header || !question) {
        return std::nullopt;
    }
    const std::string_view raw(reinterpret_cast<const char*>(question->raw.data()),
                               question->raw.size());
    constexpr std::uint64_t kOdd = 0x9e37'79b9'7f4a'7c15; // spreads what is added next
    const std::uint64_t ends = std::hash<Endpoint>{}(message.source) * kOdd + header->id;
    return (ends * kOdd + std::hash<std::string_view>{}(raw)) | 1ULL << 63U; // never 0
}

} // namespace

void RetransmitCounter::add(const trace::Message& message) {
    const auto key =
        message.transport == Transport::kUdp ? key_of(message) : std::optional<std::uint64_t>();
    if (!key) {
        return;
    }
    auto& kept = buckets_[*key % kBuckets].kept;
    const auto known = std::ranges::find(kept, *key, &Kept::key);
    if (known != kept.end() && message.time - known->time <= kWindow) {
        ++count_;
    } else if (known != kept.end()) {
        known->time = message.time;
    } else {
        *std::ranges::min_element(kept, {}, &Kept::time) = {.key = *key, .time = message.time};
    }
}

} // namespace reprise::mutator
