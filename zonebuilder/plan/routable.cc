#include "zonebuilder/plan/routable.hh"

#include "core/base/address.hh"
#include "core/base/prefix.hh"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

Reserved range(std::string_view prefix, std::string why) {
    return {.prefix = known_prefix(prefix), .why = std::move(why)};
}

/// How many addresses a prefix has; at most 2^62, which is more than anyone numbers.
std::uint64_t capacity(const Prefix& prefix) {
    return std::uint64_t{1} << std::min(prefix.free_bits(), 62U);
}

} // namespace

const std::vector<Reserved>& never_routable() {
    static const std::vector<Reserved> ranges{
        range("::/128", "the unspecified address"),
        range("::1/128", "loopback"),
        range("::ffff:0:0/96", "IPv4-mapped"),
        range("fe80::/10", "link-local"),
        range("ff00::/8", "multicast"),
        range("0.0.0.0/8", "this network (0/8)"),
        range("127.0.0.0/8", "loopback"),
        range("169.254.0.0/16", "link-local"),
        range("224.0.0.0/4", "multicast"),
        range("240.0.0.0/4", "reserved (240/4)"),
    };
    return ranges;
}

std::optional<std::string> why_unroutable(const IpAddress& address,
                                          const std::vector<Reserved>& reserved) {
    for (const auto* ranges : {&never_routable(), &reserved}) {
        const auto hit = std::ranges::find_if(
            *ranges, [&](const Reserved& one) { return one.prefix.holds(address); });
        if (hit != ranges->end()) {
            return hit->why;
        }
    }
    return std::nullopt;
}

std::optional<IpAddress> nth_address(const Prefix& prefix, std::uint64_t n) {
    const std::uint64_t usable = capacity(prefix) - (prefix.address.is_v4() ? 1 : 0);
    return n < usable ? prefix.host(n) : std::nullopt;
}

} // namespace reprise::zonebuilder
