#include "controller/retransmits.hh"

#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/trace/reader.hh"
#include "core/wire/query.hh"

#include <xxhash.h>

#include <array>
#include <cstdint>
#include <optional>

namespace reprise::controller {
namespace {

std::optional<std::uint64_t> key_of(const trace::Message& message) {
    const auto header = parse_header(message.bytes);
    const auto question = parse_question(message.bytes);
    if (message.transport != Transport::kUdp || !header || !question) {
        return std::nullopt;
    }
    const auto& address = message.source.address;
    const std::uint64_t source =
        XXH3_64bits_withSeed(address.bytes.data(), address.size(),
                             (std::uint64_t{message.source.port} << 16U) | header->id);
    return XXH3_64bits_withSeed(question->raw.data(), question->raw.size(), source);
}

} // namespace

void Retransmits::forget(Nanoseconds now) {
    while (!order_.empty() && (order_.front().first <= now - timeout_ || order_.size() > most_)) {
        kept_.erase(order_.front().second);
        order_.pop_front();
    }
}

bool Retransmits::repeats(const trace::Message& message) {
    const auto key = key_of(message);
    if (!key) {
        return false;
    }
    forget(message.time);
    if (!kept_.try_emplace(*key, message.time).second) {
        return true;
    }
    order_.emplace_back(message.time, *key);
    forget(message.time);
    return false;
}

} // namespace reprise::controller
