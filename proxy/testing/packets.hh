#pragma once
// Packets for the tests, and their checksums computed from scratch: nothing here is shared with the
// rewriting.

#include "core/base/address.hh"
#include "core/base/bytes.hh"

#include <cstdint>
#include <string_view>
#include <vector>

namespace reprise::proxy::testing {

using Buffer = std::vector<std::uint8_t>;

/// What differs between the packets of the tests.
struct Recipe {
    std::string_view source = "198.19.254.1";
    std::string_view destination = "198.41.0.4";
    std::uint8_t protocol = 17;
    std::uint16_t source_port = 4'000;
    std::uint16_t destination_port = 53;
    Buffer payload = {1, 2, 3, 4, 5};
    Buffer options = {};    ///< IPv4 options or IPv6 extension headers, whole
    std::uint8_t next = 17; ///< IPv6: what the fixed header says comes next, with `options`
    bool checksum = true;   ///< UDP over IPv4 may be without
    std::uint8_t tcp_flags = 0x10;
    std::uint32_t seq = 0; ///< TCP, as the following
    std::uint32_t ack = 0;
    std::uint16_t window = 0;
    Buffer tcp_options = {}; ///< a multiple of 4 bytes
};

/// A packet with right lengths and checksums; IPv4 or IPv6 by its source.
Buffer make(const Recipe& recipe);

/// Whether every checksum of an unfragmented packet is right.
bool checksums_hold(Bytes packet);

/// The packet cut into IPv4 fragments of `size` bytes each (a multiple of 8).
std::vector<Buffer> fragment_v4(const Buffer& packet, size_t size);

/// The reverse, for fragments in order.
Buffer join_v4(const std::vector<Buffer>& fragments);

IpAddress address(std::string_view text);

/// 192.0.0.0 and as many addresses on.
IpAddress numbered(std::uint32_t number);

/// That an IP packet's header names.
IpAddress source_of(Bytes packet);

} // namespace reprise::proxy::testing
