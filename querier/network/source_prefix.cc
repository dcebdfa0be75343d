#include "querier/network/source_prefix.hh"

#include "core/base/address.hh"
#include "core/base/prefix.hh"

#include <cstdint>
#include <optional>

namespace reprise::querier {

std::optional<IpAddress> source_address(const Prefix& prefix, std::uint64_t index) {
    const std::uint64_t host = index + 1;
    const bool last = prefix.address.is_v4() && host + 1 == std::uint64_t{1} << prefix.free_bits();
    return host == 0 || last ? std::nullopt : prefix.host(host);
}

} // namespace reprise::querier
