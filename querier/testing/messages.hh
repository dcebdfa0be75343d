#pragma once
#include "core/bytes.hh"
#include "core/query.hh"

#include <cstdint>
#include <string_view>
#include <vector>

namespace reprise::querier::testing {

/// A query message for `name` ("www.example.", "." for the root), class IN.
inline std::vector<std::uint8_t> make_message(std::uint16_t id, std::string_view name,
                                              std::uint16_t type = 1) {
    std::vector<std::uint8_t> out{static_cast<std::uint8_t>(id >> 8U),
                                  static_cast<std::uint8_t>(id),
                                  0,
                                  0,
                                  0,
                                  1,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0};
    while (name.size() > 1) {
        const std::string_view label = name.substr(0, name.find('.'));
        out.push_back(static_cast<std::uint8_t>(label.size()));
        out.insert(out.end(), label.begin(), label.end());
        name.remove_prefix(label.size() + 1);
    }
    out.insert(out.end(),
               {0, static_cast<std::uint8_t>(type >> 8U), static_cast<std::uint8_t>(type), 0, 1});
    return out;
}

/// The query turned into an empty answer (QR set, RCODE given).
inline std::vector<std::uint8_t> make_reply(Bytes query, std::uint8_t rcode = 0) {
    std::vector<std::uint8_t> out(query.begin(), query.end());
    out[2] |= 0x80U;
    out[3] = rcode;
    return out;
}

/// A query of source number `source` (its address follows from the number), `offset` after the
/// trace's first.
inline Query make_query(std::uint64_t sequence, Nanoseconds offset, Bytes message,
                        std::uint32_t source = 0, Transport transport = Transport::kUdp,
                        std::uint8_t family = 4) {
    Query query;
    query.sequence = sequence;
    query.trace_time = 1'500'000'000 * kSecond + offset;
    query.due = offset;
    query.source.address.family = family;
    query.source.address.bytes = {10, static_cast<std::uint8_t>(source >> 16U),
                                  static_cast<std::uint8_t>(source >> 8U),
                                  static_cast<std::uint8_t>(source)};
    query.source.port = 1024;
    query.destination.address = query.source.address;
    query.destination.port = 53;
    query.source_id = source;
    query.transport = transport;
    query.message = message;
    return query;
}

inline constexpr Nanoseconds kTraceFirst = 1'500'000'000 * kSecond;

} // namespace reprise::querier::testing
