#pragma once
// A keyed hash of addresses: the same on every host, so that both ends of a path agree on its round
// trip without a word between them.

#include "core/base/address.hh"

#include <bit>
#include <cstdint>
#include <cstring>

namespace reprise::proxy {

/// Spreads 64 bits over 64 bits (the finalizer of splitmix64, Steele, Lea, Flood 2014).
constexpr std::uint64_t mix_bits(std::uint64_t value) {
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31U);
}

inline std::uint64_t address_hash(const IpAddress& address, std::uint64_t key) {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::memcpy(&high, address.bytes.data(), sizeof high);
    std::memcpy(&low, address.bytes.data() + sizeof high, sizeof low);
    const std::uint64_t start = mix_bits(key + 0x9E3779B97F4A7C15U) + address.family;
    return mix_bits(mix_bits(start ^ high) + low);
}

/// Bits as a number in [0, 1).
constexpr double unit_of(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }

} // namespace reprise::proxy
