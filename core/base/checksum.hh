#pragma once
// The Internet checksum (RFC 1071): the one's complement sum of 16-bit words. The sum does not
// depend on byte order as long as words are read and the result is written in the same one, so all
// is in host order as loaded.

#include "core/base/bytes.hh"

#include <arpa/inet.h>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace reprise {

/// A sum under way: carries pile up in the upper half until folded. Good for 4 GB.
class Checksum {
public:
    /// Adds bytes that begin at an even place of what is summed.
    void add(Bytes bytes) {
        const std::uint8_t* at = bytes.data();
        size_t left = bytes.size();
        for (; left >= 4; left -= 4, at += 4) {
            std::uint32_t word = 0;
            std::memcpy(&word, at, sizeof word);
            sum_ += word;
        }
        if (left != 0) {
            std::uint32_t rest = 0; // zero bytes behind the end, as the checksum wants
            std::memcpy(&rest, at, left);
            sum_ += rest;
        }
    }

    /// Adds a number that stands in the packet, or its pseudo-header, `times` times.
    void add(std::uint16_t number, unsigned times = 1) {
        sum_ += std::uint64_t{times} * htons(number);
    }

    /// Writes the checksum of what was added. 0 over data that holds a right checksum.
    void store(std::uint8_t* at) const { store16(at, value()); }

    /// The same as UDP has it, where 0 means that there is no checksum.
    void store_udp(std::uint8_t* at) const { store16(at, value() == 0 ? 0xffffU : value()); }

    /// The checksum as a number. 0 over data that holds a right checksum.
    [[nodiscard]] std::uint16_t value() const {
        std::uint64_t sum = (sum_ & 0xffffffffU) + (sum_ >> 32U);
        sum = (sum & 0xffffU) + (sum >> 16U);
        sum = (sum & 0xffffU) + (sum >> 16U);
        sum = (sum & 0xffffU) + (sum >> 16U);
        return ntohs(static_cast<std::uint16_t>(~sum));
    }

private:
    std::uint64_t sum_ = 0;
};

} // namespace reprise
