#pragma once
// Which addresses no packet of an experiment can be sent to.

#include "core/base/address.hh"
#include "core/base/prefix.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::zonebuilder {

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
