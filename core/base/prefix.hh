#pragma once
#include "core/base/address.hh"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace reprise {

/// The address with the bits behind the first `bits` set to zero.
inline IpAddress masked(IpAddress address, size_t bits) {
    size_t at = bits / 8;
    if (at < address.size()) {
        address.bytes[at] &= static_cast<std::uint8_t>(0xff00U >> bits % 8);
        while (++at < address.size()) {
            address.bytes[at] = 0;
        }
    }
    return address;
}

/// The addresses that share their first `bits` bits.
struct Prefix {
    IpAddress address;
    unsigned bits = 0;

    [[nodiscard]] bool holds(const IpAddress& other) const {
        const size_t whole = bits / 8;
        const unsigned rest = bits % 8;
        return other.family == address.family &&
               std::equal(address.bytes.begin(),
                          address.bytes.begin() + static_cast<std::ptrdiff_t>(whole),
                          other.bytes.begin()) &&
               (rest == 0 || ((address.bytes[whole] ^ other.bytes[whole]) >> (8U - rest)) == 0);
    }

    /// Bits of an address of this family that the prefix leaves free.
    [[nodiscard]] unsigned free_bits() const {
        return static_cast<unsigned>(address.size()) * 8 - bits;
    }

    /// Whether the bits behind the prefix are zero.
    [[nodiscard]] bool is_network() const { return masked(address, bits) == address; }

    /// The address whose bits behind the prefix are `number`; nothing where they are too few.
    [[nodiscard]] std::optional<IpAddress> host(std::uint64_t number) const;

    /// "192.0.2.0/24".
    [[nodiscard]] std::string text() const;

    /// Parses "192.0.2.0/24" or "2001:db8::/32"; a lone address is the prefix of that one. Bits
    /// behind the prefix may be set.
    static std::optional<Prefix> parse(std::string_view text);

    /// As parse(), but nothing where bits behind the prefix are set.
    static std::optional<Prefix> parse_network(std::string_view text);
};

/// Of text in the code, which is one.
inline Prefix known_prefix(std::string_view text) { return Prefix::parse(text).value_or(Prefix{}); }

/// Whether one of the prefixes holds the address.
inline bool any_holds(std::span<const Prefix> prefixes, const IpAddress& address) {
    return std::ranges::any_of(prefixes, [&](const Prefix& one) { return one.holds(address); });
}

} // namespace reprise
