#pragma once
// Segments of one connection, for the tests of TCP streams.

#include "core/trace/testing/feeder.hh"
#include "core/trace/testing/packets.hh"

#include <cstdint>
#include <string>

namespace reprise::trace::test {

inline Buffer client(std::uint32_t sequence, const Buffer& payload, const std::string& flags = "A",
                     std::uint32_t acknowledgement = 0) {
    return ipv4(tcp({.sequence = sequence,
                     .acknowledgement = acknowledgement,
                     .flags = flags,
                     .payload = payload}),
                {.protocol = 6});
}

inline Buffer server(std::uint32_t sequence, const Buffer& payload, const std::string& flags = "A",
                     std::uint32_t acknowledgement = 0) {
    return ipv4(tcp({.source_port = 53,
                     .destination_port = 40'000,
                     .sequence = sequence,
                     .acknowledgement = acknowledgement,
                     .flags = flags,
                     .payload = payload}),
                {.source = "198.51.100.1", .destination = "192.0.2.1", .protocol = 6});
}

inline Buffer message(std::uint16_t id, bool response = false) {
    return prefixed(dns(id, response));
}

inline const std::uint32_t kSize = static_cast<std::uint32_t>(message(1).size());

/// Opens the connection: the client's data begins at 101, the server's at 501.
inline void open(Feeder& feeder) {
    feeder.feed(client(100, {}, "S"));
    feeder.feed(server(500, {}, "SA", 101));
}

} // namespace reprise::trace::test
