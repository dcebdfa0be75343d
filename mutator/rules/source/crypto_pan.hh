#pragma once
// Crypto-PAn: addresses replaced so that two share as many leading bits after as before.
// Xu, Fan, Ammar, Moon: Prefix-preserving IP address anonymization, ICNP 2002.
//
// Bit i of an address is flipped by one bit of AES-128 over the i bits before it, filled up with a
// secret pad. All blocks of an address are encrypted in one call, so AES instructions run at full
// width: an IPv4 address costs 32 blocks, an IPv6 one 128.

#include "core/base/address.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

struct evp_cipher_ctx_st; // of OpenSSL

namespace reprise::mutator {

class CryptoPan {
public:
    static constexpr size_t kKeySize = 32; ///< 16 bytes AES key, 16 bytes pad

    using Key = std::array<std::uint8_t, kKeySize>;

    /// Throws Error where OpenSSL has no AES-128.
    explicit CryptoPan(const Key& key);

    /// Of the same family; an address of no family is left as it is. Recent addresses come from a
    /// table of 1.1 MB.
    IpAddress map(const IpAddress& address);

private:
    struct FreeContext {
        void operator()(evp_cipher_ctx_st* context) const;
    };

    struct Known {
        IpAddress from;
        IpAddress to;
    };

    static constexpr size_t kBlock = 16;
    static constexpr size_t kMostBits = 128;

    IpAddress compute(const IpAddress& address);
    void encrypt(const std::uint8_t* in, std::uint8_t* out, size_t size);

    std::unique_ptr<evp_cipher_ctx_st, FreeContext> context_;
    std::array<std::uint64_t, 2> pad_{}; ///< encrypted, as two host-order words
    std::vector<Known> known_;           ///< direct-mapped
    std::array<std::uint8_t, kBlock * kMostBits> in_{};
    std::array<std::uint8_t, kBlock * kMostBits> out_{};
};

} // namespace reprise::mutator
