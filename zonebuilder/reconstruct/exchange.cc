#include "zonebuilder/reconstruct/exchange.hh"

#include "core/base/address.hh"
#include "core/base/ascii.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/mix.hh"
#include "core/dns/message.hh"
#include "core/trace/reader.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::zonebuilder {
namespace {

std::uint64_t way_of(const Endpoint& client, const Endpoint& server,
                     const trace::Message& message) {
    const std::hash<Endpoint> hash;
    const std::uint64_t ends = mix_bits(hash(client)) + mix_bits(hash(server) + kGoldenStep);
    return mix_bits(ends + static_cast<std::uint64_t>(message.transport) +
                    kGoldenStep * message.connection);
}

/// Without regard to case (RFC 4343), which some servers do not keep.
std::uint64_t with_question(std::uint64_t way, Bytes message) {
    std::uint64_t hash = mix_bits(way + load16(message.data()));
    if (const auto question = parse_question(message)) {
        for (const std::uint8_t byte : question->raw) {
            hash = (hash ^ Lower{}(byte)) * 0x100000001b3U; // FNV-1a
        }
    }
    return mix_bits(hash);
}

} // namespace

void Exchanges::forget(Nanoseconds now) {
    if (now - since_ >= kPatience) {
        before_ = std::exchange(now_, {});
        since_ = now;
    }
}

void Exchanges::query(const trace::Message& message) {
    forget(message.time);
    ++queries_;
    const std::uint64_t way = way_of(message.source, message.destination, message);
    now_.ways.insert(way);
    now_.clients.insert(message.source.address);
    first_ = first_.value_or(message.time);
    std::string& kept = now_.asked[with_question(way, message.bytes)];
    if (keep_) {
        kept.assign(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size());
    }
}

std::string_view Exchanges::query_of(const trace::Message& response) const {
    const std::uint64_t way = way_of(response.destination, response.source, response);
    for (const Seen* seen : {&now_, &before_}) {
        if (const auto found = seen->asked.find(with_question(way, response.bytes));
            found != seen->asked.end()) {
            return found->second;
        }
    }
    return {};
}

Asked Exchanges::response(const trace::Message& message) {
    forget(message.time);
    const std::uint64_t way = way_of(message.destination, message.source, message);
    const std::uint64_t whole = with_question(way, message.bytes);
    if (now_.asked.contains(whole) || before_.asked.contains(whole)) {
        if (!before_.answered.contains(whole) && now_.answered.insert(whole).second) {
            ++answered_;
        }
        return Asked::kYes;
    }
    // A forged response to a port that asked nobody must not count because it missed by the port.
    const IpAddress& client = message.destination.address;
    const bool asks = now_.clients.contains(client) || before_.clients.contains(client);
    const bool begun = first_ && message.time - *first_ >= kBegin;
    const bool blind = message.transport == Transport::kUdp && asks && begun;
    return blind || now_.ways.contains(way) || before_.ways.contains(way) ? Asked::kNo
                                                                          : Asked::kUnknown;
}

} // namespace reprise::zonebuilder
