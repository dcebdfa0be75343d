#pragma once
#include "core/base/address.hh"

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::querier {

/// Part of an address space that belongs to one host.
struct SourcePrefix {
    IpAddress address; ///< host bits zero
    unsigned bits = 0;

    /// Address number `index`, from 0, leaving out the first (the network's own); nothing where the
    /// prefix has no more.
    [[nodiscard]] std::optional<IpAddress> at(std::uint64_t index) const;

    /// "10.0.0.0/8" or "fd00::/64"; nothing where it is none, or has host bits.
    static std::optional<SourcePrefix> parse(std::string_view text);
};

} // namespace reprise::querier
