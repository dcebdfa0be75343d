#include "core/trace/capture/line_reader.hh"

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace reprise::trace {
namespace {

std::string_view text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Without the carriage return that an editor of another system left.
std::string_view without_return(std::string_view line) {
    return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

/// Bytes up to a line feed; all of them where there is none.
size_t line_size(Bytes block) {
    const void* end = block.empty() ? nullptr : std::memchr(block.data(), '\n', block.size());
    return end == nullptr
               ? block.size()
               : static_cast<size_t>(static_cast<const std::uint8_t*>(end) - block.data());
}

} // namespace

std::string_view without_byte_order_mark(std::string_view text) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

bool LineReader::next(std::string_view& line) {
    if (!trouble_.empty()) {
        return false;
    }
    ++number_;
    if (!take_line(line)) {
        return false;
    }
    line = without_return(line);
    if (number_ == 1) {
        line = without_byte_order_mark(line);
    }
    return true;
}

bool LineReader::has_content() const {
    return !block_.empty() && block_[0] > ' ' && block_[0] != '#' && block_[0] != ';' &&
           line_size(block_) < block_.size();
}

bool LineReader::take_line(std::string_view& line) {
    const size_t size = line_size(block_);
    if (size == block_.size()) {
        return carry_on(line);
    }
    line = text(block_.first(size));
    block_ = block_.subspan(size + 1);
    return fits(size);
}

/// A line whose end is not in the block: goes on with the blocks behind it.
bool LineReader::carry_on(std::string_view& line) {
    carry_.assign(text(block_));
    while (fits(carry_.size())) {
        block_ = stream_->next_block();
        if (block_.empty()) {
            trouble_ = stream_->error();
            line = carry_;
            if (trouble_.empty() && !carry_.empty()) {
                unfinished_ = true;
                return true;
            }
            return false;
        }
        const size_t size = line_size(block_);
        carry_.append(text(block_.first(size)));
        if (size < block_.size()) {
            block_ = block_.subspan(size + 1);
            line = carry_;
            return fits(carry_.size());
        }
    }
    return false;
}

bool LineReader::fits(size_t size) {
    if (size > kLongest) {
        trouble_ = fmt::format("the line is longer than {} bytes", kLongest);
    }
    return size <= kLongest;
}

std::string_view first_content(std::string_view text) {
    while (!text.empty()) {
        const size_t size = std::min(text.find('\n'), text.size());
        const std::string_view line = without_return(text.substr(0, size));
        const bool blank = line.find_first_not_of(" \t") == std::string_view::npos;
        if (!blank && line[0] != '#' && line[0] != ';') {
            return line;
        }
        text.remove_prefix(std::min(size + 1, text.size()));
    }
    return {};
}

} // namespace reprise::trace
