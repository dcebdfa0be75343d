#include "core/base/prefix.hh"

#include "core/base/address.hh"
#include "core/base/numbers.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise {

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
    return prefix && prefix->is_network() ? prefix : std::nullopt;
}

} // namespace reprise
