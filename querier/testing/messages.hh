#pragma once
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
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

/// Replies to the query that cannot be read, all with its id: random bytes, a question that points
/// at itself, one that is not there, an answer whose name points at itself, one that ends early.
inline std::vector<std::vector<std::uint8_t>> broken_replies(Bytes query) {
    const auto reply = make_reply(query);
    auto random = std::vector<std::uint8_t>(62);
    for (size_t i = 0; i < random.size(); ++i) {
        random[i] = static_cast<std::uint8_t>(0x9d + i * 151);
    }
    std::copy_n(reply.begin(), 3, random.begin());
    auto loop = reply;
    loop[12] = 0xc0;
    loop[13] = 12;
    auto short_of = std::vector<std::uint8_t>(reply.begin(), reply.begin() + 12);
    auto answer = reply;
    answer[7] = 1;
    auto early = answer;
    const auto at = static_cast<std::uint8_t>(answer.size());
    answer.insert(answer.end(), {0xc0, at, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1});
    early.insert(early.end(), {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2});
    return {random, loop, short_of, answer, early};
}

/// A query of source number `source` (its address follows from the number), `offset` after the
/// trace's first.
inline Query make_query(std::uint64_t sequence, Nanoseconds offset, Bytes message,
                        std::uint32_t source = 0, Transport transport = Transport::kUdp,
                        std::uint8_t family = 4) {
    Query query;
    query.sequence = sequence;
    query.time = 1'500'000'000 * kSecond + offset;
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
