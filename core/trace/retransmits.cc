#include "core/trace/retransmits.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/wire/query.hh"

#include <xxhash.h>

#include <cstdint>
#include <optional>

namespace reprise::trace {

std::optional<std::uint64_t> retransmit_key(Transport transport, const Endpoint& source,
                                            Bytes message) {
    if (transport != Transport::kUdp) {
        return std::nullopt;
    }
    const auto header = parse_header(message);
    const auto question = parse_question(message);
    if (!header || !question) {
        return std::nullopt;
    }
    const std::uint64_t sender =
        XXH3_64bits_withSeed(source.address.bytes.data(), source.address.size(),
                             (std::uint64_t{source.port} << 16U) | header->id);
    return XXH3_64bits_withSeed(question->raw.data(), question->raw.size(), sender);
}

void Retransmits::forget(Nanoseconds now) {
    while (!order_.empty() && (order_.front().first <= now - timeout_ || order_.size() > most_)) {
        kept_.erase(order_.front().second);
        order_.pop_front();
    }
}

bool Retransmits::repeats(Nanoseconds time, Transport transport, const Endpoint& source,
                          Bytes message) {
    const auto key = retransmit_key(transport, source, message);
    if (!key) {
        return false;
    }
    forget(time);
    if (!kept_.insert(*key).second) {
        return true;
    }
    order_.emplace_back(time, *key);
    forget(time);
    return false;
}

} // namespace reprise::trace
