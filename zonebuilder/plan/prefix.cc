// Prefixes by whole bytes and a mask: IPv4 and IPv6 are the same code.
#include "zonebuilder/plan/prefix.hh"

#include "core/base/address.hh"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

unsigned width(const IpAddress& address) { return static_cast<unsigned>(address.size()) * 8; }

/// The bits of byte `index` that belong to a prefix of `bits` bits.
std::uint8_t mask(std::size_t index, unsigned bits) {
    const unsigned before = static_cast<unsigned>(index) * 8;
    const unsigned kept = bits <= before ? 0 : std::min(bits - before, 8U);
    return static_cast<std::uint8_t>(0xff00U >> kept);
}

std::optional<unsigned> parse_bits(std::string_view text, unsigned most) {
    unsigned bits = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    return whole && bits <= most ? std::optional(bits) : std::nullopt;
}

bool host_bits_clear(const Prefix& prefix) {
    for (std::size_t i = 0; i < prefix.base.size(); ++i) {
        if ((prefix.base.bytes.at(i) & ~mask(i, prefix.bits) & 0xff) != 0) {
            return false;
        }
    }
    return true;
}

Reserved range(std::string_view prefix, std::string why) {
    return {.prefix = Prefix::parse(prefix).value_or(Prefix{}), .why = std::move(why)};
}

/// Adds to a big-endian number; what overflows is lost.
void add_to(IpAddress& address, std::uint64_t n) {
    for (std::size_t i = address.size(); i > 0 && n > 0; --i) {
        n += address.bytes.at(i - 1);
        address.bytes.at(i - 1) = static_cast<std::uint8_t>(n);
        n >>= 8U;
    }
}

/// How many addresses a prefix has; at most 2^62, which is more than anyone numbers.
std::uint64_t capacity(const Prefix& prefix) {
    return std::uint64_t{1} << std::min(width(prefix.base) - prefix.bits, 62U);
}

} // namespace

bool Prefix::holds(const IpAddress& address) const {
    if (address.family != base.family) {
        return false;
    }
    for (std::size_t i = 0; i < base.size() && i * 8 < bits; ++i) {
        if (((address.bytes.at(i) ^ base.bytes.at(i)) & mask(i, bits)) != 0) {
            return false;
        }
    }
    return true;
}

std::string Prefix::text() const { return fmt::format("{}/{}", base.text(), bits); }

std::optional<Prefix> Prefix::parse(std::string_view text) {
    const auto slash = text.find('/');
    const auto base = IpAddress::parse(text.substr(0, slash));
    if (!base) {
        return std::nullopt;
    }
    const auto bits = slash == std::string_view::npos
                          ? std::optional(width(*base))
                          : parse_bits(text.substr(slash + 1), width(*base));
    if (!bits) {
        return std::nullopt;
    }
    const Prefix prefix{.base = *base, .bits = *bits};
    return host_bits_clear(prefix) ? std::optional(prefix) : std::nullopt;
}

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
    const std::uint64_t usable = capacity(prefix) - (prefix.base.is_v4() ? 1 : 0);
    if (n >= usable) {
        return std::nullopt;
    }
    IpAddress address = prefix.base;
    add_to(address, n);
    return address;
}

} // namespace reprise::zonebuilder
