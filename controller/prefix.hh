#pragma once
#include "core/base/address.hh"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::controller {

/// The addresses that share their first `bits` bits.
struct Prefix {
    IpAddress address;
    unsigned bits = 0;

    [[nodiscard]] bool holds(const IpAddress& other) const;

    [[nodiscard]] std::string text() const;

    /// Parses "192.0.2.0/24" or "2001:db8::/32"; a lone address is the prefix of that one.
    static std::optional<Prefix> parse(std::string_view text);
};

/// Whether one of the prefixes holds the address.
bool any_holds(const std::vector<Prefix>& prefixes, const IpAddress& address);

/// Sources to which no answer can ever be routed: unspecified, loopback, multicast and reserved
/// ones, IPv6 link-local (it needs a zone) and IPv4-mapped ones (the kernel drops them).
const std::vector<Prefix>& unusable_sources();

} // namespace reprise::controller
