#pragma once
// Domain names in uncompressed wire form (RFC 1035 section 3.1): as they stand in a message, or in
// a Name.

#include "core/base/bytes.hh" // IWYU pragma: export

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise {

/// A name with memory of its own, made of text, of a message or of parts. Not made yet, or with
/// more parts than fit, it is empty, which is no name.
class Name {
public:
    static constexpr size_t kMost = 255; ///< bytes, with the root label
    static constexpr size_t kMostLabel = 63;

    /// With its root label.
    [[nodiscard]] Bytes bytes() const { return Bytes(bytes_).first(size_ > kMost ? 0 : size_); }

    /// Without it.
    [[nodiscard]] Bytes labels() const { return bytes().first(bytes().empty() ? 0 : size_ - 1); }

    void clear() { size_ = 0; }

    /// Adds a part in wire form.
    void add(Bytes part);

    /// Adds a label of at most 63 bytes; the empty one is the root's.
    void add_label(std::string_view label);

    /// The reverse of name_text(). A final dot may be left out. Returns what is wrong with it, e.g.
    /// "has a label of over 63 bytes"; the name is good only where that is empty.
    std::string_view parse(std::string_view text);

    /// Reads a name that may be compressed, at `in` in `message`: its pointers lead to what lies
    /// before each part of it. False for what is no name of at most 255 bytes.
    bool read(Cursor& in, Bytes message);

    /// In lower case, as ends_in() wants a suffix.
    void lower();

private:
    std::string_view take_label(std::string_view& text);

    std::array<std::uint8_t, kMost> bytes_; // not zeroed: only the first size_ are ever read
    size_t size_ = 0;                       ///< of all parts
};

/// Name::parse(), or nothing.
std::optional<Name> parse_name(std::string_view text);

/// Presentation form of a name, with escapes (RFC 1035 section 5.1).
std::string name_text(Bytes name);

/// The same, behind what is in `out`.
void append_name_text(std::string& out, Bytes name);

/// The name at `in`, which goes on behind it; empty where there is none without pointers.
inline Bytes take_name(Cursor& in) {
    Cursor end = in;
    const Bytes rest = end.take(in.left());
    size_t size = 0;
    for (; size < rest.size() && rest[size] != 0; size += 1U + rest[size]) {
        if (rest[size] > Name::kMostLabel) {
            return {};
        }
    }
    return size < rest.size() && size < Name::kMost ? in.take(size + 1) : Bytes();
}

/// Whether two names are the same without regard to ASCII case (RFC 4343).
bool same_name(Bytes a, Bytes b);

/// Whether the name ends in `suffix`, which is in lower case, at a label's beginning, without
/// regard to case.
bool ends_in(Bytes name, Bytes suffix);

} // namespace reprise
