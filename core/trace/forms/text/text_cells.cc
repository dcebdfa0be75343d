#include "core/trace/forms/text/text_cells.hh"

#include "core/base/address.hh"
#include "core/base/ascii.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/hex.hh"
#include "core/base/numbers.hh"
#include "core/dns/words.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace reprise::trace {
namespace {

struct Flag {
    std::string_view name;
    std::uint16_t bit;
};

/// In the header's order.
constexpr std::array kFlags{
    Flag{"aa", 0x0400}, Flag{"tc", 0x0200}, Flag{"rd", 0x0100}, Flag{"ra", 0x0080},
    Flag{"z", 0x0040},  Flag{"ad", 0x0020}, Flag{"cd", 0x0010},
};

constexpr std::array kTransports{Transport::kUdp,  Transport::kTcp,   Transport::kTls,
                                 Transport::kQuic, Transport::kHttps, Transport::kStatelessTcp};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The part of `list` before `separator`, taken off together with it.
std::string_view take_item(std::string_view& list, char separator) {
    const size_t at = std::min(list.find(separator), list.size());
    const std::string_view item = list.substr(0, at);
    list.remove_prefix(std::min(at + 1, list.size()));
    return item;
}

/// Strict dotted quad: four numbers up to 255 without leading zeros.
bool parse_v4(std::string_view cell, std::uint8_t* out) {
    for (size_t part = 0; part < 4; ++part) {
        unsigned value = 0;
        size_t digits = 0;
        for (; digits < cell.size() && digits < 4 && is_digit(cell[digits]); ++digits) {
            value = value * 10 + static_cast<unsigned>(cell[digits] - '0');
        }
        if (digits == 0 || value > 255 || (digits > 1 && cell[0] == '0')) {
            return false;
        }
        cell.remove_prefix(digits);
        out[part] = static_cast<std::uint8_t>(value);
        if (part < 3) {
            if (cell.empty() || cell[0] != '.') {
                return false;
            }
            cell.remove_prefix(1);
        }
    }
    return cell.empty();
}

bool parse_v6(std::string_view cell, std::uint8_t* out) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (cell.size() >= text.size()) {
        return false;
    }
    std::ranges::copy(cell, text.begin());
    return inet_pton(AF_INET6, text.data(), out) == 1;
}

/// One option, CODE:HEX, appended to `out`.
bool parse_option(std::string_view item, std::vector<std::uint8_t>& out) {
    const size_t colon = item.find(':');
    const auto code = option_words().number(item.substr(0, colon));
    if (colon == std::string_view::npos || !code) {
        return false;
    }
    const std::string_view value = item.substr(colon + 1);
    const size_t size = value.size() / 2;
    for (const size_t field : {size_t{*code}, size}) {
        append16(out, field);
    }
    return size <= 0xffff && parse_hex(value, out);
}

} // namespace

void append_number(std::string& out, std::uint64_t value) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.begin(), digits.end(), value).ptr;
    out.append(digits.data(), end);
}

bool parse_time(std::string_view cell, Nanoseconds& out) {
    const bool negative = !cell.empty() && cell[0] == '-';
    cell.remove_prefix(negative ? 1 : 0);
    const std::string_view whole = take_item(cell, '.');
    std::uint64_t seconds = 0;
    if (whole.size() > 10 || cell.size() > 9 || !std::ranges::all_of(cell, is_digit) ||
        !parse_number(whole, seconds)) {
        return false;
    }
    std::uint64_t fraction = 0;
    for (size_t i = 0; i < 9; ++i) {
        fraction = fraction * 10 + (i < cell.size() ? static_cast<unsigned>(cell[i] - '0') : 0U);
    }
    const std::uint64_t time =
        seconds * std::uint64_t{kSecond} + fraction; // at most 10^19, so it cannot overflow
    out = static_cast<Nanoseconds>(negative ? 0 - time : time);
    return is_trace_time(out);
}

void append_time(std::string& out, Nanoseconds time) {
    const std::uint64_t size =
        time < 0 ? -static_cast<std::uint64_t>(time) : static_cast<std::uint64_t>(time);
    if (time < 0) {
        out += '-';
    }
    append_number(out, size / std::uint64_t{kSecond});
    std::array<char, 10> fraction{'.'};
    std::uint64_t rest = size % std::uint64_t{kSecond};
    for (size_t i = 9; i > 0; --i) {
        fraction.at(i) = static_cast<char>('0' + rest % 10);
        rest /= 10;
    }
    out.append(fraction.data(), fraction.size());
}

bool parse_address(std::string_view cell, IpAddress& out) {
    out = {};
    if (cell.find(':') == std::string_view::npos) {
        out.family = 4;
        return parse_v4(cell, out.bytes.data());
    }
    out.family = 6;
    return parse_v6(cell, out.bytes.data());
}

void append_address(std::string& out, const IpAddress& address) {
    if (!address.is_v4()) {
        std::array<char, INET6_ADDRSTRLEN> text{};
        inet_ntop(AF_INET6, address.bytes.data(), text.data(), text.size());
        out += text.data();
        return;
    }
    std::array<char, 16> text{};
    char* at = text.data();
    for (size_t part = 0; part < 4; ++part) {
        at = std::to_chars(at, text.end(), address.bytes.at(part)).ptr;
        *at++ = '.';
    }
    out.append(text.data(), at - 1);
}

bool parse_transport(std::string_view cell, Transport& out) {
    const auto found = std::ranges::find_if(
        kTransports, [&](Transport t) { return same_word(transport_name(t), cell); });
    if (found == kTransports.end()) {
        return false;
    }
    out = *found;
    return true;
}

bool parse_flags(std::string_view cell, std::uint16_t& out) {
    out = 0;
    do {
        const std::string_view word = take_item(cell, ',');
        const auto found =
            std::ranges::find_if(kFlags, [&](const Flag& f) { return same_word(f.name, word); });
        if (found == kFlags.end()) {
            return false;
        }
        out |= found->bit;
    } while (!cell.empty());
    return true;
}

void append_flags(std::string& out, std::uint16_t flags) {
    const size_t before = out.size();
    for (const Flag& flag : kFlags) {
        if ((flags & flag.bit) != 0) {
            out += out.size() == before ? "" : ",";
            out += flag.name;
        }
    }
    if (out.size() == before) {
        out += kNoCell;
    }
}

bool parse_options(std::string_view cell, std::vector<std::uint8_t>& out) {
    out.clear();
    do {
        if (!parse_option(take_item(cell, ';'), out)) {
            return false;
        }
    } while (!cell.empty());
    return out.size() <= 0xffff;
}

void append_options(std::string& out, Bytes options) {
    const size_t before = out.size();
    Cursor in(options);
    while (in.left() > 0) {
        out += out.size() == before ? "" : ";";
        option_words().append(out, in.u16be());
        out += ':';
        append_hex(out, in.take(in.u16be()));
    }
    if (out.size() == before) {
        out += kNoCell;
    }
}

std::string quoted_cell(std::string_view cell) {
    constexpr size_t kMost = 60;
    std::string out = "\"";
    for (const char c : cell.substr(0, kMost)) {
        if (c >= 0x20 && c < 0x7f) {
            out += c;
        } else {
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(c));
        }
    }
    return out + (cell.size() > kMost ? "...\"" : "\"");
}

} // namespace reprise::trace
