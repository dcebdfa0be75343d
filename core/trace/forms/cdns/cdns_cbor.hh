#pragma once
// CBOR (RFC 8949) pulled item by item from a stream. What floats and simple values say is not
// looked at.
//
// Like Cursor, a reader keeps its first error: every later item is empty and ok() is false, so a
// parser checks once. No length is believed before its bytes are there: a container's length only
// limits a loop that ends with the bytes, a string's is checked against kMostString before memory
// is taken, and nesting ends at kMostDepth.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"

#include <cstddef>
#include <cstdint>
#include <limits>
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

class CborReader {
public:
    static constexpr size_t kMostString = 1UL << 20U;
    static constexpr unsigned kMostDepth = 16;

    /// Borrows the stream.
    explicit CborReader(ByteStream& stream) : stream_(&stream) {}

    [[nodiscard]] bool ok() const { return error_.empty(); }

    /// What went wrong first, e.g. "byte 17: the file ends within an item".
    [[nodiscard]] const std::string& error() const { return error_; }

    /// Bytes read, from the beginning of the stream.
    [[nodiscard]] std::uint64_t offset() const { return offset_; }

    /// Keeps `what` as the error, with the place, unless there is one already.
    void fail(const std::string& what);

    CborItem next();

    /// A number that is not negative, else an error.
    std::uint64_t number();

    /// A number of either sign, else an error.
    std::int64_t signed_number();

    /// Appends a byte or text string, whole or in pieces, to `out`; else an error.
    void string(std::vector<std::uint8_t>& out);

    /// Passes over one item with all it holds; tags belong to the item behind them.
    void skip();

    /// Calls each() for every item of an array; it must read exactly one item.
    template <typename Each> void array(Each each) {
        const CborItem head = begin(CborItem::Kind::kArray);
        for (std::uint64_t i = 0; more(head, i); ++i) {
            each();
        }
        --depth_;
    }

    /// Calls each(key) for every pair of a map; it reads exactly the value, or leaves it to be
    /// passed over. So are the values of keys that are not whole numbers.
    template <typename Each> void map(Each each) {
        const CborItem head = begin(CborItem::Kind::kMap);
        for (std::uint64_t i = 0; more(head, i); ++i) {
            const std::int64_t key = map_key();
            const std::uint64_t at = offset_;
            if (key != kOddKey) {
                each(key);
            }
            if (offset_ == at) {
                skip();
            }
        }
        --depth_;
    }

    /// The head of an array, for a caller that walks it by more().
    CborItem begin_array() { return begin(CborItem::Kind::kArray); }

    /// Whether a container has an item behind `done` ones; takes the break of an indefinite one.
    bool more(const CborItem& head, std::uint64_t done);

    /// Whether nothing is left; an error where that cannot be read.
    bool at_end();

private:
    static constexpr std::int64_t kOddKey = std::numeric_limits<std::int64_t>::min();

    CborItem begin(CborItem::Kind kind);
    void enter();
    std::int64_t map_key();
    bool fill(size_t size);
    bool need(size_t size);
    Bytes string_behind(size_t head, std::uint64_t size);

    [[nodiscard]] Bytes left() const { return Bytes(buffer_).subspan(used_); }

    ByteStream* stream_;
    std::vector<std::uint8_t> buffer_;
    size_t used_ = 0; ///< bytes of buffer_ already taken
    std::uint64_t offset_ = 0;
    unsigned depth_ = 0;
    std::string error_;
};

} // namespace reprise::trace
