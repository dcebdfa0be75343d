#pragma once
// Letters of ASCII: names, keywords and units compare without regard to case (RFC 4343).

#include <algorithm>
#include <string_view>

namespace reprise {

/// Upper case to lower case; other bytes stay. A function object, so that it serves as a
/// projection.
struct Lower {
    template <typename Byte> constexpr Byte operator()(Byte byte) const {
        return byte >= 'A' && byte <= 'Z' ? static_cast<Byte>(byte + ('a' - 'A')) : byte;
    }
};

/// Whether two words differ in case at most.
constexpr bool same_word(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, {}, Lower{}, Lower{});
}

} // namespace reprise
