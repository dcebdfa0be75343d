#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/wire/query.hh"
#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/source_key.hh"
#include "mutator/rules/volume/volume_rules.hh"

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr size_t kMostKept = 1UL << 20U;

/// Nothing where the query cannot be a retransmit: not UDP, no well-formed question.
std::optional<std::uint64_t> key_of(const Item& item) {
    const auto header = parse_header(item.message);
    const auto question = parse_question(item.message);
    if (item.transport != Transport::kUdp || !header || !question) {
        return std::nullopt;
    }
    const std::uint64_t source =
        source_key(item.source.address, (std::uint64_t{item.source.port} << 16U) | header->id);
    return XXH3_64bits_withSeed(question->raw.data(), question->raw.size(), source);
}

} // namespace

void CollapseRule::forget(Nanoseconds now) {
    while (!order_.empty() &&
           (order_.front().first <= now - timeout_ || order_.size() > kMostKept)) {
        kept_.erase(order_.front().second);
        order_.pop_front();
    }
}

bool CollapseRule::repeats(const Item& item) {
    if (item.is_close() || !selector_.takes(item)) {
        return false;
    }
    const auto key = key_of(item);
    if (!key) {
        return false;
    }
    forget(item.time);
    if (!kept_.insert(*key).second) {
        return true;
    }
    order_.emplace_back(item.time, *key);
    forget(item.time);
    return false;
}

void CollapseRule::apply(Batch& batch) {
    dropped_ += std::erase_if(batch.items, [this](const Item& item) { return repeats(item); });
}

RuleCounts CollapseRule::counts() const {
    return {{"seen", selector_.seen()},
            {"matched", selector_.matched()},
            {"changed", 0},
            {"dropped", dropped_}};
}

} // namespace reprise::mutator
