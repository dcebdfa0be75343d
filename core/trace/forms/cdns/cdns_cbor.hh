#pragma once
// CBOR (RFC 8949) from a stream: values of a shape that the caller gives. What floats and simple
// values say is not looked at.
//
// Like Cursor, a reader keeps its first error: every later item is empty and ok() is false, so a
// parser checks once. No length is believed before its bytes are there: a container's length only
// limits a loop that ends with the bytes, a string's is checked against kMostString before memory
// is taken, nesting ends at kMostDepth, and what is kept takes no more than kMostMemory.

#include "core/base/arena.hh"
#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace reprise::trace {

struct CborItem {
    /// The major types, and what else an item may be.
    enum class Kind : std::uint8_t {
        kUnsigned,
        kNegative, ///< -1 - value
        kBytes,
        kText,
        kArray,
        kMap,
        kTag,
        kOther, ///< floats, true, false, null, undefined
        kBreak, ///< the end of an indefinite container or string
        kNone,  ///< an error
    };

    Kind kind = Kind::kNone;
    bool indefinite = false; ///< container or string without a length
    std::uint64_t value = 0; ///< number, tag, or the container's items (pairs of a map)
    Bytes bytes{};           ///< of a string; good until the next item
};

/// What an item must be.
struct CborShape {
    /// kUnsigned: a whole number of 64 bits; kBytes: also text; kNone: anything, which is passed
    /// over.
    CborItem::Kind kind = CborItem::Kind::kNone;
    size_t numbers = 0; ///< of a map: the first keys, from 0 on, which have numbers
    /// Of a map: the keys behind those; others are passed over. Of an array: one for all entries.
    const CborShape* parts = nullptr;
    size_t count = 0; ///< of `parts`
};

inline constexpr CborShape kCborNumber{.kind = CborItem::Kind::kUnsigned};
inline constexpr CborShape kCborString{.kind = CborItem::Kind::kBytes};

/// `entry` outlives the shape.
constexpr CborShape cbor_array_of(const CborShape& entry) {
    return {.kind = CborItem::Kind::kArray, .parts = &entry, .count = 1};
}

/// A map with numbers alone.
constexpr CborShape cbor_map_of(size_t numbers) {
    return {.kind = CborItem::Kind::kMap, .numbers = numbers};
}

/// `parts` outlive the shape.
template <size_t Count>
constexpr CborShape cbor_map_of(size_t numbers, const std::array<CborShape, Count>& parts) {
    return {
        .kind = CborItem::Kind::kMap, .numbers = numbers, .parts = parts.data(), .count = Count};
}

/// A number, a string, an array, or a map of which the shape's keys are kept; or nothing. What is
/// asked of it must fit its shape. Good until the reader forgets it.
class CborValue {
public:
    CborValue() = default;

    explicit CborValue(std::int64_t number) : number_(number), there_(true) {}

    explicit CborValue(Bytes bytes)
        : bytes_(bytes.data()), size_(static_cast<std::uint32_t>(bytes.size())), there_(true) {}

    explicit CborValue(std::span<const CborValue> parts)
        : parts_(parts.data()), size_(static_cast<std::uint32_t>(parts.size())), there_(true) {}

    explicit operator bool() const { return there_; }

    [[nodiscard]] std::int64_t number(std::int64_t otherwise = 0) const {
        return there_ ? number_ : otherwise;
    }

    [[nodiscard]] Bytes bytes() const { return there_ ? Bytes(bytes_, size_) : Bytes(); }

    /// Entries of an array.
    [[nodiscard]] size_t size() const { return size_; }

    /// The array's entry, or the map's value of this key.
    template <typename At> CborValue operator[](At at) const {
        const auto index = static_cast<std::uint64_t>(at);
        return index < size_ ? parts_[index] : CborValue();
    }

    /// The array's entry of the index that the other value is; nothing where it is none.
    CborValue operator[](const CborValue& index) const { return (*this)[index.number(-1)]; }

private:
    union {
        std::int64_t number_ = 0;
        const std::uint8_t* bytes_;
        const CborValue* parts_;
    };

    std::uint32_t size_ = 0;
    bool there_ = false;
};

/// The bytes of a stream, which can be looked at before they are taken.
class Lookahead {
public:
    /// Borrows the stream.
    explicit Lookahead(ByteStream& stream) : stream_(&stream) {}

    /// Whether at least `size` bytes are at hand, after reading as much as is needed.
    bool fill(size_t size);

    /// What is at hand; good until the next call of fill().
    [[nodiscard]] Bytes left() const { return Bytes(buffer_).subspan(used_); }

    void take(size_t size) { used_ += size; }

    [[nodiscard]] const std::string& error() const { return stream_->error(); }

private:
    ByteStream* stream_;
    std::vector<std::uint8_t> buffer_;
    size_t used_ = 0; ///< bytes of buffer_ already taken
};

class CborReader {
public:
    static constexpr size_t kMostString = 1UL << 20U;
    static constexpr unsigned kMostDepth = 16;
    /// Of what is kept. Real writers stop at some 5,000 to 100,000 items, a few MiB.
    static constexpr size_t kMostMemory = 128UL << 20U;

    /// Borrows the stream.
    explicit CborReader(ByteStream& stream) : in_(stream) {}

    [[nodiscard]] bool ok() const { return error_.empty(); }

    /// What went wrong first, e.g. "byte 17: the file ends within an item".
    [[nodiscard]] const std::string& error() const { return error_; }

    /// Keeps `what` as the error, with the place, unless there is one already.
    void fail(const std::string& what);

    /// The next item. Of one with an error, what came before it: an array's entry that is not whole
    /// is left out.
    CborValue read(const CborShape& shape);

    /// All values that were read are no longer good.
    void forget();

    /// The head of an array or a map, for a caller that walks it by more().
    CborItem begin(CborItem::Kind kind);

    /// Whether a container has an item behind `done` ones; takes the break of an indefinite one.
    bool more(const CborItem& head, std::uint64_t done);

    /// Whether nothing is left; an error where that cannot be read.
    bool at_end();

private:
    static constexpr std::uint64_t kOddKey = std::numeric_limits<std::uint64_t>::max();
    static constexpr size_t kFirstMemory = 256UL << 10U;

    CborItem next();
    void enter();
    std::int64_t number();
    Bytes string();
    std::span<CborValue> array(const CborShape& entry);
    std::span<CborValue> map(const CborShape& shape);
    std::uint64_t map_key();
    void skip();
    void charge(size_t bytes);
    std::span<CborValue> room(size_t values);
    bool need(size_t size);
    Bytes string_behind(size_t head, std::uint64_t size);

    Lookahead in_;
    std::uint64_t offset_ = 0; ///< bytes read, from the beginning of the stream
    unsigned depth_ = 0;
    std::string error_;
    Arena kept_{kFirstMemory};
    size_t memory_ = 0;                ///< of what is kept
    std::vector<std::uint8_t> string_; ///< read last
};

} // namespace reprise::trace
