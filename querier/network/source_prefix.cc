#include "querier/network/source_prefix.hh"

#include "core/base/address.hh"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace reprise::querier {

std::optional<SourcePrefix> SourcePrefix::parse(std::string_view text) {
    const size_t slash = text.find('/');
    const auto address = IpAddress::parse(text.substr(0, slash));
    if (!address || slash == std::string_view::npos) {
        return std::nullopt;
    }
    SourcePrefix prefix{.address = *address, .bits = 0};
    const std::string_view length = text.substr(slash + 1);
    const auto [end, error] =
        std::from_chars(length.data(), length.data() + length.size(), prefix.bits);
    if (error != std::errc{} || end != length.data() + length.size() ||
        prefix.bits > address->size() * 8) {
        return std::nullopt;
    }
    for (size_t bit = prefix.bits; bit < address->size() * 8; ++bit) {
        if ((address->bytes[bit / 8] & (0x80U >> (bit % 8))) != 0) {
            return std::nullopt;
        }
    }
    return prefix;
}

std::optional<IpAddress> SourcePrefix::at(std::uint64_t index) const {
    const size_t host_bits = address.size() * 8 - bits;
    const std::uint64_t host = index + 1;
    if (host == 0 || (host_bits < 64 && (host >> host_bits) != 0)) {
        return std::nullopt;
    }
    // The last IPv4 address would be the broadcast address of a subnet.
    if (address.is_v4() && host + 1 == std::uint64_t{1} << host_bits) {
        return std::nullopt;
    }
    IpAddress out = address;
    for (size_t i = 0; i < std::min<size_t>(8, out.size()); ++i) {
        out.bytes[out.size() - 1 - i] |= static_cast<std::uint8_t>(host >> (8 * i));
    }
    return out;
}

} // namespace reprise::querier
