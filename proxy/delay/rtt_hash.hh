#pragma once
// A keyed hash of addresses: the same on every host, so that both ends of a path agree on its round
// trip without a word between them.

#include "core/base/address.hh"
#include "core/base/mix.hh"

#include <cstdint>
#include <cstring>

namespace reprise::proxy {

inline std::uint64_t address_hash(const IpAddress& address, std::uint64_t key) {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::memcpy(&high, address.bytes.data(), sizeof high);
    std::memcpy(&low, address.bytes.data() + sizeof high, sizeof low);
    const std::uint64_t start = mix_bits(key + kGoldenStep) + address.family;
    return mix_bits(mix_bits(start ^ high) + low);
}

/// Bits as a number in [0, 1).
constexpr double unit_of(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }

} // namespace reprise::proxy
