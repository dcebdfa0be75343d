#pragma once
// Addresses for sources: out of a prefix, by number, and pseudonyms that keep prefixes.

#include "core/base/address.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

struct evp_cipher_ctx_st; // of OpenSSL

namespace reprise::rules {

// Addresses out of a prefix by number, in no visible order.

/// Gives each number below size() an address of its own: a keyed permutation of the prefix's host
/// parts without the first and the last (in IPv6 of its lowest 62 bits). Nothing is stored.
class AddressPool {
public:
    /// The prefix must leave at least 2 bits.
    AddressPool(const Prefix& prefix, std::uint64_t key);

    [[nodiscard]] const Prefix& prefix() const { return prefix_; }

    [[nodiscard]] std::uint64_t size() const { return mask_ - 1; }

    /// Numbers from size() on begin again.
    [[nodiscard]] IpAddress at(std::uint64_t number) const;

private:
    [[nodiscard]] std::uint64_t permuted(std::uint64_t value) const;

    Prefix prefix_;
    std::uint64_t mask_ = 0;
    unsigned half_ = 0;
    std::uint64_t key_;
};

// Crypto-PAn: addresses replaced so that two share as many leading bits after as before.
// Xu, Fan, Ammar, Moon: Prefix-preserving IP address anonymization, ICNP 2002.
//
// Bit i of an address is flipped by one bit of AES-128 over the i bits before it, filled up with a
// secret pad. All blocks of an address are encrypted in one call, so AES instructions run at full
// width: an IPv4 address costs 32 blocks, an IPv6 one 128.

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

} // namespace reprise::rules
