#include "core/base/hex.hh"

#include "core/base/bytes.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
namespace {

/// Value of a hexadecimal digit, or 255.
constexpr std::array<std::uint8_t, 256> hex_values() {
    std::array<std::uint8_t, 256> table{};
    table.fill(255);
    for (std::uint8_t value = 0; value < 16; ++value) {
        table.at(static_cast<std::uint8_t>("0123456789abcdef"[value])) = value;
        table.at(static_cast<std::uint8_t>("0123456789ABCDEF"[value])) = value;
    }
    return table;
}

constexpr std::array<std::uint8_t, 256> kHexValues = hex_values();

unsigned hex_value(char c) { return kHexValues.at(static_cast<std::uint8_t>(c)); }

} // namespace

bool parse_hex(std::string_view text, std::vector<std::uint8_t>& out) {
    if (text.size() % 2 != 0) {
        return false;
    }
    const size_t start = out.size();
    out.resize(start + text.size() / 2);
    unsigned all = 0;
    for (size_t i = 0; i < text.size() / 2; ++i) {
        const unsigned high = hex_value(text[2 * i]);
        const unsigned low = hex_value(text[2 * i + 1]);
        all |= high | low;
        out[start + i] = static_cast<std::uint8_t>((high << 4U) | low);
    }
    return all < 16;
}

void append_hex(std::string& out, Bytes bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const size_t start = out.size();
    out.resize(start + 2 * bytes.size());
    char* at = out.data() + start;
    for (const std::uint8_t byte : bytes) {
        *at++ = kDigits[byte >> 4U];
        *at++ = kDigits[byte & 0xfU];
    }
}

} // namespace reprise
