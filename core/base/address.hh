#pragma once
#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace reprise {

/// An IPv4 or IPv6 address in network byte order. IPv4 fills the first 4 bytes, the rest is zero.
struct IpAddress {
    std::array<std::uint8_t, 16> bytes{};
    std::uint8_t family = 0; ///< 4, 6, or 0 for none

    auto operator<=>(const IpAddress&) const = default;

    [[nodiscard]] size_t size() const { return family == 4 ? 4 : family == 6 ? 16 : 0; }

    [[nodiscard]] bool is_v4() const { return family == 4; }

    [[nodiscard]] bool is_v6() const { return family == 6; }

    /// Whether it may belong to somebody on the Internet: in none of the private, shared,
    /// link-local, loopback, benchmark or documentation ranges (RFC 6890, RFC 4193).
    [[nodiscard]] bool is_public() const;

    [[nodiscard]] std::string text() const;

    static IpAddress v4(const std::uint8_t* four);
    static IpAddress v6(const std::uint8_t* sixteen);
    static std::optional<IpAddress> parse(std::string_view text);
};

/// Address and port.
struct Endpoint {
    IpAddress address;
    std::uint16_t port = 0; ///< host byte order

    auto operator<=>(const Endpoint&) const = default;

    /// "192.0.2.1:53" or "[2001:db8::1]:53".
    [[nodiscard]] std::string text() const;

    /// Fills `out`; returns the length for bind and connect.
    socklen_t to_sockaddr(sockaddr_storage& out) const;

    static Endpoint from_sockaddr(const sockaddr_storage& in);

    /// Parses the form of text(), e.g. "127.0.0.1:853" or "[::1]:853".
    static std::optional<Endpoint> parse(std::string_view text);
};

/// The server, by family.
struct Servers {
    std::optional<Endpoint> v4;
    std::optional<Endpoint> v6;

    [[nodiscard]] const std::optional<Endpoint>& of(std::uint8_t family) const {
        return family == 4 ? v4 : v6;
    }
};

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

} // namespace reprise

template <> struct std::hash<reprise::IpAddress> {
    size_t operator()(const reprise::IpAddress& address) const noexcept {
        return std::hash<std::string_view>{}(
            {reinterpret_cast<const char*>(address.bytes.data()), address.bytes.size()});
    }
};

template <> struct std::hash<reprise::Endpoint> {
    size_t operator()(const reprise::Endpoint& endpoint) const noexcept {
        return std::hash<reprise::IpAddress>{}(endpoint.address) * 31 + endpoint.port;
    }
};
