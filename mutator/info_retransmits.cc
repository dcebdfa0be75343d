#include "mutator/info_retransmits.hh"

#include "core/address.hh"
#include "core/clock.hh"
#include "core/dns_message.hh"
#include "core/query.hh"
#include "core/trace/reader.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace reprise::mutator {
namespace {

constexpr size_t kMost = 1UL << 20U;

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
    return ends * kOdd + std::hash<std::string_view>{}(raw);
}

} // namespace

void RetransmitCounter::add(const trace::Message& message) {
    const auto key =
        message.transport == Transport::kUdp ? key_of(message) : std::optional<std::uint64_t>();
    if (!key) {
        return;
    }
    forget(message.time);
    if (kept_.try_emplace(*key, message.time).second) {
        order_.emplace_back(message.time, *key);
    } else {
        ++count_;
    }
}

void RetransmitCounter::forget(Nanoseconds now) {
    while (!order_.empty() && (now - order_.front().first > kWindow || order_.size() >= kMost)) {
        kept_.erase(order_.front().second);
        order_.pop_front();
    }
}

} // namespace reprise::mutator
