#include "mutator/synth/punycode.hh"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::mutator {
namespace {

// Parameters of RFC 3492 section 5.
constexpr std::uint32_t kBase = 36;
constexpr std::uint32_t kTMin = 1;
constexpr std::uint32_t kTMax = 26;
constexpr std::uint32_t kSkew = 38;
constexpr std::uint32_t kDamp = 700;
constexpr std::uint32_t kInitialBias = 72;
constexpr std::uint32_t kInitialN = 128;
constexpr size_t kMaxLabel = 63;

/// Section 6.1.
std::uint32_t adapt(std::uint32_t delta, std::uint32_t count, bool first) {
    delta = first ? delta / kDamp : delta / 2;
    delta += delta / count;
    std::uint32_t k = 0;
    while (delta > ((kBase - kTMin) * kTMax) / 2) {
        delta /= kBase - kTMin;
        k += kBase;
    }
    return k + (kBase - kTMin + 1) * delta / (delta + kSkew);
}

char digit(std::uint32_t value) {
    return static_cast<char>(value < 26 ? 'a' + value : '0' + (value - 26));
}

/// `delta` as a generalised variable-length integer (section 3.3).
void append_integer(std::string& out, std::uint32_t delta, std::uint32_t bias) {
    for (std::uint32_t k = kBase;; k += kBase) {
        const std::uint32_t t = k <= bias ? kTMin : std::min(k - bias, kTMax);
        if (delta < t) {
            out += digit(delta);
            return;
        }
        out += digit(t + (delta - t) % (kBase - t));
        delta = (delta - t) / (kBase - t);
    }
}

/// Section 6.3. Labels are at most 63 bytes, so no number overflows.
std::string encode(const std::u32string& points) {
    std::string out;
    std::ranges::copy_if(points, std::back_inserter(out), [](char32_t c) { return c < kInitialN; });
    const auto basic = static_cast<std::uint32_t>(out.size());
    if (basic > 0) {
        out += '-';
    }
    std::uint32_t n = kInitialN;
    std::uint32_t delta = 0;
    std::uint32_t bias = kInitialBias;
    for (std::uint32_t done = basic; done < points.size(); ++delta, ++n) {
        std::uint32_t next = std::numeric_limits<std::uint32_t>::max();
        for (const char32_t c : points) {
            next = c >= n ? std::min<std::uint32_t>(next, c) : next;
        }
        delta += (next - n) * (done + 1);
        n = next;
        for (const char32_t c : points) {
            delta += c < n ? 1 : 0;
            if (c == n) {
                append_integer(out, delta, bias);
                bias = adapt(delta, done + 1, done == basic);
                delta = 0;
                ++done;
            }
        }
    }
    return out;
}

/// Bytes of the UTF-8 sequence this byte begins (RFC 3629), 0 where it begins none.
size_t sequence_size(std::uint8_t lead) {
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) {
        return 0;
    }
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

std::optional<std::u32string> decode_utf8(std::string_view text) {
    std::u32string out;
    while (!text.empty()) {
        const auto lead = static_cast<std::uint8_t>(text[0]);
        const size_t size = sequence_size(lead);
        if (size == 0 || size > text.size()) {
            return std::nullopt;
        }
        char32_t point = size == 1 ? lead : lead & (0xffU >> (size + 1));
        for (size_t i = 1; i < size; ++i) {
            const auto byte = static_cast<std::uint8_t>(text[i]);
            if ((byte & 0xc0U) != 0x80) {
                return std::nullopt;
            }
            point = (point << 6U) | (byte & 0x3fU);
        }
        out += point;
        text.remove_prefix(size);
    }
    return out;
}

} // namespace

std::optional<std::string> to_a_label(std::string_view label) {
    auto points = decode_utf8(label);
    if (!points || points->empty() || points->size() > kMaxLabel) {
        return std::nullopt;
    }
    bool ascii = true;
    for (char32_t& c : *points) {
        c = c >= U'A' && c <= U'Z' ? c + 32 : c;
        ascii = ascii && c < 0x80;
    }
    std::string out =
        ascii ? std::string(points->begin(), points->end()) : "xn--" + encode(*points);
    return out.size() <= kMaxLabel ? std::optional(out) : std::nullopt;
}

} // namespace reprise::mutator
