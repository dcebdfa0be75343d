#pragma once
#include "core/base/address.hh"
#include "core/base/flat_ids.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace reprise {

/// A map from addresses to ids (see flat_ids.hh). No address counts as ::.
///
/// Memory an address: slots of 8 bytes (IPv4) and 20 bytes (IPv6), filled to between 3/8 and 3/4,
/// so 11 to 22 and 27 to 54 bytes; half as much again for the moment of growing.
class AddressIds {
public:
    /// The address's id and whether it is new; a new one gets `fresh_id` (below 2^32 - 1).
    std::pair<std::uint32_t, bool> find_or_add(const IpAddress& address, size_t fresh_id) {
        const auto id = static_cast<std::uint32_t>(fresh_id);
        const std::uint8_t* const at = address.bytes.data();
        return address.is_v4() ? v4_.find_or_add(key<4>(at), id) : v6_.find_or_add(key<16>(at), id);
    }

    /// The id of the address at `at`, in network byte order, if it has one.
    [[nodiscard]] std::optional<std::uint32_t> find(const std::uint8_t* at, bool v6) const {
        return v6 ? v6_.find(key<16>(at)) : v4_.find(key<4>(at));
    }

    [[nodiscard]] std::optional<std::uint32_t> find(const IpAddress& address) const {
        return find(address.bytes.data(), !address.is_v4());
    }

    /// Its id will be asked for soon.
    [[gnu::always_inline]] void expect(const IpAddress& address) const {
        const std::uint8_t* const at = address.bytes.data();
        address.is_v4() ? v4_.expect(key<4>(at)) : v6_.expect(key<16>(at));
    }

    [[nodiscard]] size_t size() const { return v4_.size() + v6_.size(); }

    /// Bytes of the slots.
    [[nodiscard]] size_t memory() const { return v4_.memory() + v6_.memory(); }

private:
    template <size_t Size> static typename FlatIds<Size>::Key key(const std::uint8_t* at) {
        typename FlatIds<Size>::Key out;
        std::copy_n(at, Size, out.begin());
        return out;
    }

    FlatIds<4> v4_;
    FlatIds<16> v6_;
};

/// Addresses, numbered in the order in which they came. Memory: 17 bytes more for each.
class AddressTable {
public:
    std::uint32_t add(const IpAddress& address) {
        const auto [id, fresh] = ids_.find_or_add(address, addresses_.size());
        if (fresh) {
            addresses_.push_back(address);
        }
        return id;
    }

    [[nodiscard]] std::optional<std::uint32_t> find(const IpAddress& address) const {
        return ids_.find(address);
    }

    [[nodiscard]] const IpAddress& operator[](std::uint32_t id) const { return addresses_[id]; }

    [[nodiscard]] const std::vector<IpAddress>& all() const { return addresses_; }

    [[nodiscard]] size_t size() const { return addresses_.size(); }

private:
    AddressIds ids_;
    std::vector<IpAddress> addresses_;
};

} // namespace reprise
