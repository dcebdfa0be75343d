#pragma once
// The Internet checksum (RFC 1071): the one's complement sum of 16-bit words. The sum does not
// depend on byte order as long as words are read and the result is written in the same one, so all
// is in host order as loaded.

#include "core/base/bytes.hh"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace reprise::querier {

/// A sum under way: carries pile up in the upper half until folded. Good for 4 GB.
using ChecksumSum = std::uint64_t;

/// Adds bytes that begin at an even place of the packet.
inline ChecksumSum checksum_add(ChecksumSum sum, Bytes bytes) {
    const std::uint8_t* at = bytes.data();
    size_t left = bytes.size();
    for (; left >= 4; left -= 4, at += 4) {
        std::uint32_t word = 0;
        std::memcpy(&word, at, sizeof word);
        sum += word;
    }
    std::uint32_t rest = 0; // zero bytes behind the end, as the checksum wants
    std::memcpy(&rest, at, left);
    return sum + rest;
}

/// Adds one 16-bit word that is in network order.
inline ChecksumSum checksum_add_word(ChecksumSum sum, std::uint16_t network_order) {
    return sum + network_order;
}

/// The checksum of what was added, ready to be stored.
inline std::uint16_t checksum_finish(ChecksumSum sum) {
    sum = (sum & 0xffffffffU) + (sum >> 32U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    return static_cast<std::uint16_t>(~sum);
}

} // namespace reprise::querier
