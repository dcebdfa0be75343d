#include "mutator/rules/source/address_pool.hh"

#include "core/base/address.hh"
#include "core/base/prefix.hh"
#include "mutator/rules/engine/source_key.hh"

#include <algorithm>
#include <cstdint>

namespace reprise::mutator {
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

} // namespace reprise::mutator
