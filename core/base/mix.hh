#pragma once
#include <cstdint>

namespace reprise {

/// 2^64 divided by the golden ratio: steps that lie evenly however many there are.
inline constexpr std::uint64_t kGoldenStep = 0x9e3779b97f4a7c15U;

/// Spreads 64 bits over 64 bits, one to one (the finalizer of splitmix64, Steele, Lea, Flood 2014).
constexpr std::uint64_t mix_bits(std::uint64_t value) {
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31U);
}

} // namespace reprise
