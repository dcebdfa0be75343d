#pragma once
// The Internet checksum (RFC 1071), as IPv4, UDP and TCP use it.

#include "core/base/bytes.hh"

#include <cstdint>

namespace reprise::mutator {

/// Adds up 16-bit big-endian words over several pieces. Every piece but the last must have an even
/// size.
class Checksum {
public:
    void add(Bytes piece);

    /// Adds one number of up to 32 bits, as two words of the pseudo-header.
    void add_number(std::uint32_t number) { sum_ += number; }

    /// One's complement of the sum, host byte order. 0 over data that holds a right checksum.
    [[nodiscard]] std::uint16_t value() const;

private:
    std::uint64_t sum_ = 0;
};

} // namespace reprise::mutator
