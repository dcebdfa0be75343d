#pragma once
#include "core/base/address.hh"
#include "querier/sockets/transport.hh"

#include <cstdint>
#include <cstring>

namespace reprise::querier {

/// What kind of thing an Owner stands for; its low 16 bits.
inline constexpr std::uint16_t kOwnerSocket = 1;     ///< one socket of a source (mode ports)
inline constexpr std::uint16_t kOwnerConnection = 2; ///< a TCP connection
inline constexpr std::uint16_t kOwnerAddress = 3;    ///< a local address (other modes)

/// A numbered socket or connection; numbers are never used again.
constexpr Owner owner_of(std::uint64_t number, std::uint16_t kind) {
    return (number << 16U) | kind;
}

/// A local address and port. Exact for IPv4; a 48-bit hash for IPv6, where two addresses with the
/// same hash would also need the same id and question to be confused.
inline Owner owner_of(const Endpoint& local) {
    if (local.address.is_v4()) {
        std::uint32_t address = 0;
        std::memcpy(&address, local.address.bytes.data(), sizeof address);
        return owner_of((std::uint64_t{address} << 16U) | local.port, kOwnerAddress);
    }
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::memcpy(&high, local.address.bytes.data(), sizeof high);
    std::memcpy(&low, local.address.bytes.data() + sizeof high, sizeof low);
    std::uint64_t hash = (high ^ 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
    hash = (hash ^ (hash >> 29U) ^ low ^ local.port) * 0x94d049bb133111ebU;
    return owner_of(hash ^ (hash >> 32U), kOwnerAddress);
}

} // namespace reprise::querier
