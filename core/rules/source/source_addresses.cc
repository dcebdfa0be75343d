#include "core/rules/source/source_addresses.hh"

#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/rules/engine/selector.hh"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace reprise::rules {

namespace {

constexpr unsigned kMostBits = 62;
constexpr int kRounds = 3;

} // namespace

AddressPool::AddressPool(const Prefix& prefix, std::uint64_t key) : prefix_(prefix), key_(key) {
    const unsigned bits = std::min(prefix.free_bits(), kMostBits);
    mask_ = (std::uint64_t{1} << bits) - 1;
    half_ = (bits + 1) / 2;
}

// Each step (add, multiply by an odd number, fold the upper half into the lower) can be undone on
// numbers of these many bits, so the whole is a permutation of them.
std::uint64_t AddressPool::permuted(std::uint64_t value) const {
    for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t key = mixed_seed(key_, static_cast<std::uint64_t>(round));
        value = ((value + key) * (key | 1U)) & mask_;
        value ^= value >> half_;
    }
    return value;
}

// Walking the permutation past the two values that are no hosts keeps it one on the others.
IpAddress AddressPool::at(std::uint64_t number) const {
    std::uint64_t host = permuted(number % size() + 1);
    while (host == 0 || host == mask_) {
        host = permuted(host);
    }
    return prefix_.host(host).value_or(prefix_.address);
}

namespace {

constexpr size_t kKnown = 1UL << 15U;

using Words = std::array<std::uint64_t, 2>; ///< 128 bits, the leading ones first, in host order

std::uint64_t swapped(std::uint64_t value) {
    return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

Words load(const std::uint8_t* bytes) {
    Words words{};
    std::memcpy(words.data(), bytes, sizeof words);
    return {swapped(words[0]), swapped(words[1])};
}

void store(const Words& words, std::uint8_t* bytes) {
    const Words big{swapped(words[0]), swapped(words[1])};
    std::memcpy(bytes, big.data(), sizeof big);
}

} // namespace

void CryptoPan::FreeContext::operator()(evp_cipher_ctx_st* context) const {
    EVP_CIPHER_CTX_free(context);
}

CryptoPan::CryptoPan(const Key& key) : context_(EVP_CIPHER_CTX_new()), known_(kKnown) {
    if (!context_ ||
        EVP_EncryptInit_ex(context_.get(), EVP_aes_128_ecb(), nullptr, key.data(), nullptr) != 1) {
        throw Error("OpenSSL has no AES-128; anonymize cannot work without it");
    }
    EVP_CIPHER_CTX_set_padding(context_.get(), 0);
    std::array<std::uint8_t, kBlock> pad{};
    encrypt(key.data() + kBlock, pad.data(), kBlock);
    pad_ = load(pad.data());
}

IpAddress CryptoPan::map(const IpAddress& address) {
    if (address.family == 0) {
        return address;
    }
    Known& slot = known_[source_key(address, 0) % kKnown];
    if (slot.from != address) {
        slot = {.from = address, .to = compute(address)};
    }
    return slot.to;
}

IpAddress CryptoPan::compute(const IpAddress& address) {
    const size_t bits = address.size() * 8;
    const Words original = load(address.bytes.data());
    Words block = pad_; // its first i bits are the address's
    for (size_t i = 0; i < bits; ++i) {
        store(block, in_.data() + i * kBlock);
        const std::uint64_t bit = std::uint64_t{1} << (63 - i % 64);
        block.at(i / 64) = (block.at(i / 64) & ~bit) | (original.at(i / 64) & bit);
    }
    encrypt(in_.data(), out_.data(), bits * kBlock);
    IpAddress result = address;
    for (size_t i = 0; i < bits; ++i) {
        result.bytes.at(i / 8) ^= static_cast<std::uint8_t>((out_.at(i * kBlock) & 0x80U) >> i % 8);
    }
    return result;
}

void CryptoPan::encrypt(const std::uint8_t* in, std::uint8_t* out, size_t size) {
    int written = 0;
    if (EVP_EncryptUpdate(context_.get(), out, &written, in, static_cast<int>(size)) != 1) {
        throw Error("AES-128 of OpenSSL failed");
    }
}

} // namespace reprise::rules
