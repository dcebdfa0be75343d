#include "core/dns/name.hh"

#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace reprise {
namespace {

/// Of the bytes of a label, those that are written as they are.
constexpr std::array<bool, 256> plain_table() {
    std::array<bool, 256> table{};
    std::fill(table.begin() + 0x21, table.begin() + 0x7f, true);
    for (const char c : std::string_view(".\\\";()@$")) {
        table.at(static_cast<std::uint8_t>(c)) = false;
    }
    return table;
}

constexpr std::array<bool, 256> kPlain = plain_table();
constexpr std::string_view kLongName = "takes over 255 bytes";

void append_byte(std::string& out, std::uint8_t byte) {
    if (byte <= 0x20 || byte >= 0x7f) {
        fmt::format_to(std::back_inserter(out), "\\{:03}", byte);
        return;
    }
    out.append(kPlain.at(byte) ? "" : "\\");
    out += static_cast<char>(byte);
}

void append_label(std::string& out, Bytes label) {
    if (std::ranges::all_of(label, [](std::uint8_t byte) { return kPlain.at(byte); })) {
        out.append(reinterpret_cast<const char*>(label.data()), label.size());
    } else {
        std::ranges::for_each(label, [&](std::uint8_t byte) { append_byte(out, byte); });
    }
    out += '.';
}

/// The byte that "\\DDD" or "\\c" at the beginning of `text` stands for; takes it off. Nothing
/// where the escape is broken.
std::optional<std::uint8_t> take_escape(std::string_view& text) {
    text.remove_prefix(1);
    if (text.empty()) {
        return std::nullopt;
    }
    if (text[0] < '0' || text[0] > '9') {
        const char c = text[0];
        text.remove_prefix(1);
        return static_cast<std::uint8_t>(c);
    }
    const auto value =
        text.size() < 3 ? std::nullopt : parse_number<std::uint8_t>(text.substr(0, 3));
    text.remove_prefix(value ? 3 : 0);
    return value;
}

} // namespace

void Name::add(Bytes part) {
    if (size_ + part.size() <= kMost) {
        std::ranges::copy(part, bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
    }
    size_ += part.size();
}

void Name::add_label(std::string_view label) {
    const auto length = static_cast<std::uint8_t>(label.size());
    add({&length, 1});
    add(bytes_of(label));
}

void Name::lower() { std::ranges::transform(bytes(), bytes_.begin(), Lower{}); }

/// Takes a label and its dot off `text`; keeps room for the root label. Returns as parse().
std::string_view Name::take_label(std::string_view& text) {
    const size_t length_at = size_++;
    while (!text.empty() && text[0] != '.') {
        auto byte = static_cast<std::uint8_t>(text[0]);
        if (byte == '\\') {
            const auto escaped = take_escape(text);
            if (!escaped) {
                return R"(has a broken escape (\DDD up to \255, or \ and a character))";
            }
            byte = *escaped;
        } else {
            text.remove_prefix(1);
        }
        if (size_ >= kMost - 1) {
            return kLongName;
        }
        bytes_.at(size_++) = byte;
    }
    const size_t length = size_ - length_at - 1;
    bytes_.at(length_at) = static_cast<std::uint8_t>(length);
    text.remove_prefix(text.empty() ? 0 : 1);
    return length == 0           ? "has an empty label"
           : length > kMostLabel ? "has a label of over 63 bytes"
                                 : "";
}

std::string_view Name::parse(std::string_view text) {
    size_ = 0;
    if (text.empty()) {
        return "is empty";
    }
    if (text == ".") {
        text = {};
    }
    while (!text.empty()) {
        if (size_ >= kMost - 1) {
            return kLongName;
        }
        if (const std::string_view error = take_label(text); !error.empty()) {
            return error;
        }
    }
    add_label({});
    return {};
}

std::optional<Name> parse_name(std::string_view text) {
    std::optional<Name> name(std::in_place);
    return name->parse(text).empty() ? name : std::nullopt;
}

bool Name::read(Cursor& in, Bytes message) {
    size_ = 0;
    Cursor behind(message); // a pointer
    Cursor* at = &in;
    size_t start = in.position();
    for (;;) {
        const std::uint8_t length = at->u8();
        if ((length & 0xc0U) == 0xc0U) {
            const size_t target = (length & 0x3fU) << 8U | at->u8();
            if (!at->ok() || target >= start) {
                return false;
            }
            behind.seek(target);
            at = &behind;
            start = target;
            continue;
        }
        const Bytes label = at->take(length);
        if (!at->ok() || length > kMostLabel || size_ + length + 1U > kMost) {
            return false;
        }
        bytes_.at(size_++) = length;
        add(label);
        if (length == 0) {
            return true;
        }
    }
}

bool same_name(Bytes a, Bytes b) { return std::ranges::equal(a, b, {}, Lower{}, Lower{}); }

bool ends_in(Bytes name, Bytes suffix) {
    size_t at = 0;
    while (name.size() - at > suffix.size()) {
        at += size_t{1} + name[at];
        if (at > name.size()) {
            return false;
        }
    }
    return name.size() - at == suffix.size() &&
           std::ranges::equal(name.subspan(at), suffix, {}, Lower{});
}

void append_name_text(std::string& out, Bytes name) {
    const size_t before = out.size();
    Cursor in(name);
    for (std::uint8_t length = in.u8(); in.ok() && length != 0; length = in.u8()) {
        append_label(out, in.take(length));
    }
    if (out.size() == before) {
        out += '.';
    }
}

std::string name_text(Bytes name) {
    std::string out;
    append_name_text(out, name);
    return out;
}

} // namespace reprise
