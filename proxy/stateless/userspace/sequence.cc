#include "proxy/stateless/userspace/sequence.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "proxy/stateless/userspace/segment.hh"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::proxy::stateless {

namespace {

constexpr unsigned kSizeShift = 30;
constexpr size_t kHeadersV4 = 40;
constexpr size_t kHeadersV6 = 60;
constexpr std::uint16_t kDefaultMss = 536; // RFC 9293 section 3.7.1

using Sizes = std::array<std::uint16_t, 4>;
constexpr Sizes kSizesV4{kDefaultMss, 1'220, 1'380, 1'460};
constexpr Sizes kSizesV6{kDefaultMss, 1'220, 1'380, 1'440};

const Sizes& sizes(const IpAddress& address) { return address.is_v6() ? kSizesV6 : kSizesV4; }

} // namespace

std::uint32_t SequenceNumbers::hash(const Connection& connection) const {
    std::array<std::uint8_t, 36> bytes{};
    auto at = std::ranges::copy(connection.client.address.bytes, bytes.begin()).out;
    std::ranges::copy(connection.server.address.bytes, at);
    store16(&bytes[32], connection.client.port);
    store16(&bytes[34], connection.server.port);
    return static_cast<std::uint32_t>(XXH3_64bits_withSeed(bytes.data(), bytes.size(), secret_)) >>
           (32U - kSizeShift);
}

std::uint32_t SequenceNumbers::first(const Connection& connection, std::uint16_t mss) const {
    const Sizes& known = sizes(connection.client.address);
    const std::uint16_t most =
        std::min<std::uint16_t>(mss == 0 ? kDefaultMss : mss, own_mss(connection.client.address));
    const auto above = std::ranges::upper_bound(known, most);
    const auto index =
        static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(above - known.begin(), 1));
    return (index - 1) << kSizeShift | hash(connection);
}

std::uint16_t SequenceNumbers::mss(const Connection& connection, std::uint32_t ack) const {
    const std::uint32_t distance = ack - 1 - hash(connection);
    return sizes(connection.client.address)[distance >> kSizeShift];
}

std::uint16_t SequenceNumbers::own_mss(const IpAddress& address) const {
    const size_t headers = address.is_v6() ? kHeadersV6 : kHeadersV4;
    return static_cast<std::uint16_t>(std::clamp<size_t>(most_, kDefaultMss + headers, 65'535) -
                                      headers);
}

} // namespace reprise::proxy::stateless
