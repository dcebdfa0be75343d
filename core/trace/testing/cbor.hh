#pragma once
// CBOR written by hand, for the tests of C-DNS.

#include "core/trace/testing/packets.hh"

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace reprise::trace::test {

/// A head of major type `major` with as few bytes as its number takes.
inline Buffer cbor_head(unsigned major, std::uint64_t value) {
    const auto first = static_cast<std::uint8_t>(major << 5U);
    if (value < 24) {
        return {static_cast<std::uint8_t>(first | value)};
    }
    const unsigned bytes = value > 0xffffffffU ? 8 : value > 0xffffU ? 4 : value > 0xffU ? 2 : 1;
    Buffer out{static_cast<std::uint8_t>(first | (bytes == 8   ? 27U
                                                  : bytes == 4 ? 26U
                                                  : bytes == 2 ? 25U
                                                               : 24U))};
    for (unsigned i = bytes; i-- > 0;) {
        out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    }
    return out;
}

inline Buffer cbor(std::int64_t value) {
    return value < 0 ? cbor_head(1, static_cast<std::uint64_t>(-1 - value))
                     : cbor_head(0, static_cast<std::uint64_t>(value));
}

inline Buffer cbor_bytes(const Buffer& bytes) { return cbor_head(2, bytes.size()) + bytes; }

inline Buffer cbor_text(std::string_view text) {
    return cbor_head(3, text.size()) + Buffer(text.begin(), text.end());
}

inline Buffer cbor_array(std::initializer_list<Buffer> items) {
    Buffer out = cbor_head(4, items.size());
    for (const Buffer& item : items) {
        out = std::move(out) + item;
    }
    return out;
}

inline Buffer cbor_map(std::initializer_list<std::pair<std::int64_t, Buffer>> pairs) {
    Buffer out = cbor_head(5, pairs.size());
    for (const auto& [key, value] : pairs) {
        out = std::move(out) + cbor(key) + value;
    }
    return out;
}

} // namespace reprise::trace::test
