#pragma once
// Lines of a byte stream, as they come (a pipe may be live), with their numbers.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::trace {

/// Removes the byte order mark that some editors put before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

class LineReader {
public:
    static constexpr size_t kLongest = 1U << 20U; ///< bytes of a line

    /// Borrows the stream.
    explicit LineReader(ByteStream& stream) : stream_(&stream) {}

    /// The next line without its end (LF or CRLF), good until the next call. False at the end and
    /// where the stream is broken or a line too long (see trouble()).
    bool next(std::string_view& line);

    /// Whether the next line is here, and neither empty nor a comment.
    [[nodiscard]] bool has_content() const;

    /// Of the line that next() was last called for, from 1.
    [[nodiscard]] std::uint64_t number() const { return number_; }

    /// Whether the stream ended in the line that next() gave: it has no line feed.
    [[nodiscard]] bool unfinished() const { return unfinished_; }

    /// Why reading ended before the end; empty where it did not.
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

private:
    bool take_line(std::string_view& line);
    bool carry_on(std::string_view& line);
    bool fits(size_t size);

    ByteStream* stream_;
    Bytes block_;       ///< of the stream, as far as it was not read
    std::string carry_; ///< a line that began in the block before
    std::uint64_t number_ = 0;
    bool unfinished_ = false;
    std::string trouble_;
};

/// The first line that is neither blank nor a comment (beginning with # or ;); empty where there is
/// none.
std::string_view first_content(std::string_view text);

} // namespace reprise::trace
