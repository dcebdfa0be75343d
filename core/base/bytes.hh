#pragma once
// A cursor that cannot overrun and keeps its error: after the first short read every later read
// yields zeros and ok() is false, so a parser checks once at the end. Its reads are always inline:
// in large translation units the compiler inlines less, and each query makes dozens of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace reprise {

using Bytes = std::span<const std::uint8_t>;

inline Bytes bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// The end of what was written. At once, where std::ranges::copy() of g++ 12 goes byte by byte.
inline std::uint8_t* copy_bytes(Bytes from, std::uint8_t* to) {
    return std::copy_n(from.data(), from.size(), to);
}

class Cursor {
public:
    explicit Cursor(Bytes data) : data_(data) {}

    [[nodiscard]] bool ok() const { return ok_; }

    [[nodiscard]] size_t position() const { return position_; }

    [[nodiscard]] size_t left() const { return data_.size() - position_; }

    /// Moves to an absolute position; past the end is an error.
    void seek(size_t position) {
        if (position > data_.size()) {
            fail();
        } else {
            position_ = position;
        }
    }

    void skip(size_t count) { take(count); }

    /// The next `count` bytes, or an empty span and an error.
    [[gnu::always_inline]] Bytes take(size_t count) {
        if (count > left()) {
            fail();
            return {};
        }
        const Bytes out = data_.subspan(position_, count);
        position_ += count;
        return out;
    }

    [[gnu::always_inline]] std::uint8_t u8() {
        const Bytes b = take(1);
        return b.empty() ? std::uint8_t{0} : b[0];
    }

    [[gnu::always_inline]] std::uint16_t u16be() {
        return static_cast<std::uint16_t>(big_endian(2));
    }

    [[gnu::always_inline]] std::uint32_t u32be() {
        return static_cast<std::uint32_t>(big_endian(4));
    }

    /// A little-endian or host-order value of our own formats (all hosts we run on are
    /// little-endian).
    template <typename T> [[gnu::always_inline]] T little() {
        T value{};
        const Bytes b = take(sizeof(T));
        if (!b.empty()) {
            std::memcpy(&value, b.data(), sizeof(T));
        }
        return value;
    }

private:
    void fail() {
        ok_ = false;
        position_ = data_.size();
    }

    [[gnu::always_inline]] std::uint64_t big_endian(size_t count) {
        std::uint64_t value = 0;
        for (const std::uint8_t byte : take(count)) {
            value = (value << 8U) | byte;
        }
        return value;
    }

    Bytes data_;
    size_t position_ = 0;
    bool ok_ = true;
};

/// A value in network order.
inline std::uint16_t load16(const std::uint8_t* at) {
    return static_cast<std::uint16_t>(at[0] << 8U | at[1]);
}

/// Writes the lower 16 bits of a value in network order.
inline void store16(std::uint8_t* at, size_t value) {
    at[0] = static_cast<std::uint8_t>(value >> 8U);
    at[1] = static_cast<std::uint8_t>(value);
}

/// Writes a value in network order.
inline void store32(std::uint8_t* at, std::uint32_t value) {
    store16(at, value >> 16U);
    store16(at + 2, value);
}

/// Appends the lower 16 bits of a value in network order.
inline void append16(std::vector<std::uint8_t>& out, size_t value) {
    out.push_back(static_cast<std::uint8_t>(value >> 8U));
    out.push_back(static_cast<std::uint8_t>(value));
}

/// Appends a value in little-endian order to bytes or a string.
template <typename Out, typename T> void append_little(Out& out, const T& value) {
    const size_t at = out.size();
    out.resize(at + sizeof value);
    std::memcpy(out.data() + at, &value, sizeof value);
}

} // namespace reprise
