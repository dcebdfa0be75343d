#pragma once
// What the tests of this folder share: messages made by hand.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/testing/support.hh" // IWYU pragma: export
#include "core/wire/query.hh"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::mutator {

inline std::string file_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// A response to query_bytes(): QR set and the rcode, the question as it is.
inline std::vector<std::uint8_t> reply_bytes(std::uint16_t id, std::string_view name,
                                             std::uint8_t rcode = 0, std::uint16_t type = 1) {
    auto out = query_bytes(id, name, type);
    out[2] |= 0x80;
    out[3] = rcode;
    return out;
}

/// A message between client 198.18.0.1:PORT and server 192.0.2.53:53; the bytes are borrowed.
inline Query message_of(Nanoseconds time, const std::vector<std::uint8_t>& bytes,
                        std::uint16_t port = 40'000, std::uint64_t connection = 0) {
    Query query;
    query.time = time;
    query.message = bytes;
    const Endpoint client{*IpAddress::parse("198.18.0.1"), port};
    const Endpoint server{*IpAddress::parse("192.0.2.53"), 53};
    query.source = query.is_response() ? server : client;
    query.destination = query.is_response() ? client : server;
    query.transport = connection == 0 ? Transport::kUdp : Transport::kTcp;
    query.connection = connection;
    return query;
}

} // namespace reprise::mutator

// NOLINTEND(bugprone-unchecked-optional-access)
