#include "controller/prefix.hh"

#include "core/base/address.hh"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace reprise::controller {
namespace {

std::optional<unsigned> parse_bits(std::string_view digits, size_t most) {
    unsigned bits = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    const bool whole = error == std::errc{} && end == digits.data() + digits.size();
    return whole && bits <= most ? std::optional(bits) : std::nullopt;
}

Prefix known(const char* text) { return Prefix::parse(text).value_or(Prefix{}); }

} // namespace

bool Prefix::holds(const IpAddress& other) const {
    if (other.family != address.family) {
        return false;
    }
    const auto whole = static_cast<std::ptrdiff_t>(bits / 8);
    if (!std::equal(address.bytes.begin(), address.bytes.begin() + whole, other.bytes.begin())) {
        return false;
    }
    const unsigned rest = bits % 8;
    const auto at = static_cast<size_t>(whole);
    return rest == 0 || ((address.bytes[at] ^ other.bytes[at]) >> (8U - rest)) == 0;
}

std::string Prefix::text() const { return fmt::format("{}/{}", address.text(), bits); }

std::optional<Prefix> Prefix::parse(std::string_view text) {
    const size_t slash = text.find('/');
    const auto address = IpAddress::parse(text.substr(0, slash));
    if (!address) {
        return std::nullopt;
    }
    const size_t most = address->size() * 8;
    const auto bits = slash == std::string_view::npos ? std::optional(static_cast<unsigned>(most))
                                                      : parse_bits(text.substr(slash + 1), most);
    return bits ? std::optional(Prefix{.address = *address, .bits = *bits}) : std::nullopt;
}

bool any_holds(const std::vector<Prefix>& prefixes, const IpAddress& address) {
    return std::ranges::any_of(prefixes, [&](const Prefix& one) { return one.holds(address); });
}

const std::vector<Prefix>& unusable_sources() {
    static const std::vector<Prefix> list{
        known("0.0.0.0/8"),   known("127.0.0.0/8"), known("224.0.0.0/4"),
        known("240.0.0.0/4"), known("::/128"),      known("::1/128"),
        known("ff00::/8"),    known("fe80::/10"),   known("::ffff:0:0/96")};
    return list;
}

} // namespace reprise::controller
