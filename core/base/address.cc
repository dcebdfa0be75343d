#include "core/base/address.hh"

#include "core/base/bytes.hh"
#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace reprise {

bool IpAddress::is_public() const {
    static constexpr std::array<std::string_view, 15> kNotPublic{
        "0.0.0.0/8",      "10.0.0.0/8",   "100.64.0.0/10",  "127.0.0.0/8",   "169.254.0.0/16",
        "172.16.0.0/12",  "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
        "203.0.113.0/24", "::1/128",      "fc00::/7",       "fe80::/10",     "2001:db8::/32"};
    return family != 0 && std::ranges::none_of(kNotPublic, [this](std::string_view text) {
               return known_prefix(text).holds(*this);
           });
}

std::string IpAddress::text() const {
    std::array<char, INET6_ADDRSTRLEN> out{};
    if (!is_v4()) {
        return is_v6() ? inet_ntop(AF_INET6, bytes.data(), out.data(), out.size()) : "none";
    }
    char* at = out.data();
    for (size_t part = 0; part < 4; ++part) {
        at = std::to_chars(at, out.end(), bytes.at(part)).ptr;
        *at++ = '.';
    }
    return {out.data(), at - 1};
}

IpAddress IpAddress::v4(const std::uint8_t* four) {
    IpAddress address{.bytes = {}, .family = 4};
    std::copy_n(four, 4, address.bytes.begin());
    return address;
}

IpAddress IpAddress::v6(const std::uint8_t* sixteen) {
    IpAddress address{.bytes = {}, .family = 6};
    std::copy_n(sixteen, 16, address.bytes.begin());
    return address;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
    IpAddress address;
    address.family = text.find(':') == std::string_view::npos ? 4 : 6;
    std::array<char, INET6_ADDRSTRLEN> copy{};
    if (text.size() >= copy.size() || text.find('\0') != std::string_view::npos) {
        return std::nullopt;
    }
    std::ranges::copy(text, copy.begin());
    const int family = address.is_v4() ? AF_INET : AF_INET6;
    return inet_pton(family, copy.data(), address.bytes.data()) == 1 ? std::optional(address)
                                                                     : std::nullopt;
}

std::string Endpoint::text() const {
    return address.is_v6() ? fmt::format("[{}]:{}", address.text(), port)
                           : fmt::format("{}:{}", address.text(), port);
}

socklen_t Endpoint::to_sockaddr(sockaddr_storage& out) const {
    const bool v4 = address.is_v4();
    out = {};
    out.ss_family = v4 ? AF_INET : AF_INET6;
    auto* const at = reinterpret_cast<std::uint8_t*>(&out);
    store16(at + offsetof(sockaddr_in, sin_port), port); // in the same place for both families
    const size_t offset = v4 ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
    std::memcpy(at + offset, address.bytes.data(), address.size());
    return v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

Endpoint Endpoint::from_sockaddr(const sockaddr_storage& in) {
    const auto* const at = reinterpret_cast<const std::uint8_t*>(&in);
    return {.address = in.ss_family == AF_INET
                           ? IpAddress::v4(at + offsetof(sockaddr_in, sin_addr))
                           : IpAddress::v6(at + offsetof(sockaddr_in6, sin6_addr)),
            .port = load16(at + offsetof(sockaddr_in, sin_port))};
}

std::optional<Endpoint> Endpoint::parse(std::string_view text) {
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    std::string_view host = text.substr(0, colon);
    const std::string_view digits = text.substr(colon + 1);
    if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    } else if (host.find(':') != std::string_view::npos) {
        return std::nullopt; // an IPv6 address needs brackets before its port
    }
    const auto port = parse_number<std::uint16_t>(digits);
    const auto address = IpAddress::parse(host);
    return address && port ? std::optional(Endpoint{.address = *address, .port = *port})
                           : std::nullopt;
}

std::optional<IpAddress> Prefix::host(std::uint64_t number) const {
    if (free_bits() < 64 && (number >> free_bits()) != 0) {
        return std::nullopt;
    }
    IpAddress out = masked(address, bits);
    for (size_t at = out.size(); number != 0; number >>= 8U) {
        out.bytes.at(--at) |= static_cast<std::uint8_t>(number);
    }
    return out;
}

std::string Prefix::text() const { return fmt::format("{}/{}", address.text(), bits); }

std::optional<Prefix> Prefix::parse(std::string_view text) {
    const size_t slash = std::min(text.find('/'), text.size());
    const auto address = IpAddress::parse(text.substr(0, slash));
    if (!address) {
        return std::nullopt;
    }
    const auto most = static_cast<unsigned>(address->size()) * 8;
    const auto bits =
        slash == text.size() ? std::optional(most) : parse_number<unsigned>(text.substr(slash + 1));
    return bits && *bits <= most ? std::optional(Prefix{.address = *address, .bits = *bits})
                                 : std::nullopt;
}

std::optional<Prefix> Prefix::parse_network(std::string_view text) {
    const auto prefix = parse(text);
    const bool zeros = prefix && masked(prefix->address, prefix->bits) == prefix->address;
    return zeros ? prefix : std::nullopt;
}

} // namespace reprise
