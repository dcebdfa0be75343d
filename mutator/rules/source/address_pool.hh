#pragma once
// Addresses out of a prefix by number, in no visible order.

#include "core/base/address.hh"
#include "core/base/prefix.hh"

#include <cstdint>

namespace reprise::mutator {

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

} // namespace reprise::mutator
