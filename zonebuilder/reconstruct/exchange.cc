#include "zonebuilder/reconstruct/exchange.hh"

#include "core/base/address.hh"
#include "core/base/ascii.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/flat_ids.hh"
#include "core/base/mix.hh"
#include "core/dns/message.hh"
#include "core/wire/query.hh"

#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace reprise::zonebuilder {
namespace {

std::uint64_t way_of(const Endpoint& client, const Endpoint& server, const Query& query) {
    const std::hash<Endpoint> hash;
    const std::uint64_t ends = mix_bits(hash(client)) + mix_bits(hash(server) + kGoldenStep);
    return mix_bits(ends + static_cast<std::uint64_t>(query.transport) +
                    kGoldenStep * query.connection);
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

std::uint64_t client_of(const Endpoint& client) { return std::hash<IpAddress>{}(client.address); }

FlatIds<sizeof(std::uint64_t)>::Key key(std::uint64_t hash) {
    return std::bit_cast<FlatIds<sizeof(std::uint64_t)>::Key>(hash);
}

} // namespace

void Exchanges::forget(Nanoseconds now) {
    if (now - since_ >= kPatience) {
        before_ = std::exchange(now_, {});
        since_ = now;
    }
}

void Exchanges::query(const Query& query) {
    forget(query.time);
    ++queries_;
    const Hash way = way_of(query.source, query.destination, query);
    now_.ways.find_or_add(key(way), 0);
    now_.clients.find_or_add(key(client_of(query.source)), 0);
    first_ = first_.value_or(query.time);
    const auto fresh = static_cast<std::uint32_t>(now_.answered.size());
    const auto asked = key(with_question(way, query.message));
    const auto [id, added] = now_.asked.find_or_add(asked, fresh);
    if (added) { // a repeated query is one query with the one before
        const auto earlier = before_.asked.find(asked);
        now_.answered.push_back(earlier && before_.answered[*earlier]);
    }
    if (keep_) {
        now_.queries.resize(now_.answered.size());
        now_.queries[id].assign(reinterpret_cast<const char*>(query.message.data()),
                                query.message.size());
    }
}

std::string_view Exchanges::query_of(const Query& response) const {
    const Hash way = way_of(response.destination, response.source, response);
    const auto wanted = key(with_question(way, response.message));
    for (const Seen* seen : {&now_, &before_}) {
        if (const auto id = seen->asked.find(wanted); id && *id < seen->queries.size()) {
            return seen->queries[*id];
        }
    }
    return {};
}

Asked Exchanges::response(const Query& query) {
    forget(query.time);
    const Hash way = way_of(query.destination, query.source, query);
    const auto wanted = key(with_question(way, query.message));
    for (Seen* seen : {&now_, &before_}) {
        if (const auto id = seen->asked.find(wanted)) {
            answered_ += seen->answered[*id] ? 0U : 1U;
            seen->answered[*id] = true;
            return Asked::kYes;
        }
    }
    // A forged response to a port that asked nobody must not count because it missed by the port.
    const auto client = key(client_of(query.destination));
    const auto known = [](const Hashes& now, const Hashes& before, const Hashes::Key& hash) {
        return now.find(hash) || before.find(hash);
    };
    const bool begun = first_ && query.time - *first_ >= kBegin;
    const bool blind =
        query.transport == Transport::kUdp && begun && known(now_.clients, before_.clients, client);
    return blind || known(now_.ways, before_.ways, key(way)) ? Asked::kNo : Asked::kUnknown;
}

} // namespace reprise::zonebuilder
