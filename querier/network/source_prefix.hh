#pragma once
#include "core/base/address.hh"
#include "core/base/prefix.hh"

#include <cstdint>
#include <optional>

namespace reprise::querier {

/// Address number `index` of a host's prefix, from 0, leaving out the first (the network's own) and
/// in IPv4 the last (broadcast); nothing where the prefix has no more.
std::optional<IpAddress> source_address(const Prefix& prefix, std::uint64_t index);

} // namespace reprise::querier
