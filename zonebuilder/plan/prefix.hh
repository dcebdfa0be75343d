#pragma once
// Address prefixes, and which addresses no packet of an experiment can be sent to.

#include "core/base/address.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

/// The addresses that share their first `bits` bits.
struct Prefix {
    IpAddress base;
    unsigned bits = 0;

    [[nodiscard]] bool holds(const IpAddress& address) const;

    [[nodiscard]] std::string text() const;

    /// Parses "192.0.2.0/24" or "2001:db8::/32"; a lone address is the prefix of that one. None
    /// where bits beyond the length are set.
    static std::optional<Prefix> parse(std::string_view text);
};

/// A prefix that is kept out of the map, and why.
struct Reserved {
    Prefix prefix;
    std::string why;
};

/// Ranges that never leave a host or have no single owner: loopback, multicast and their like.
const std::vector<Reserved>& never_routable();

/// Why packets to an address cannot be sent to the emulated hierarchy; none where they can.
std::optional<std::string> why_unroutable(const IpAddress& address,
                                          const std::vector<Reserved>& reserved);

/// The n-th address of a prefix; none where it has no such. The last address of an IPv4 prefix
/// counts as missing, for it may be a broadcast address.
std::optional<IpAddress> nth_address(const Prefix& prefix, std::uint64_t n);

} // namespace reprise::zonebuilder
