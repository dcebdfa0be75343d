#include "core/trace/retransmits.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "core/wire/query.hh"

#include <xxhash.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

namespace reprise::trace {
namespace {

/// Equal for a query and its retransmits; nothing for what cannot be one.
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

} // namespace

bool Retransmits::repeats(Nanoseconds time, Transport transport, const Endpoint& source,
                          Bytes message) {
    const auto hash = retransmit_key(transport, source, message);
    if (!hash) {
        return false;
    }
    if (time - since_ >= timeout_ || young_.times.size() >= most_ / 2) {
        old_ = std::exchange(young_, {});
        since_ = time;
    }
    const auto key = std::bit_cast<Keys::Key>(*hash);
    if (const auto before = old_.keys.find(key); before && time - old_.times[*before] < timeout_) {
        return true;
    }
    const auto [number, fresh] =
        young_.keys.find_or_add(key, static_cast<std::uint32_t>(young_.times.size()));
    if (fresh) {
        young_.times.push_back(time);
        return false;
    }
    if (time - young_.times[number] < timeout_) {
        return true;
    }
    young_.times[number] = time;
    return false;
}

} // namespace reprise::trace
