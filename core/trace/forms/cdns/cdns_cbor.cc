#include "core/trace/forms/cdns/cdns_cbor.hh"

#include "core/base/bytes.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cbor/callbacks.h>
#include <cbor/data.h>
#include <cbor/streaming.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

constexpr size_t kChunk = 64UL << 10U;

CborItem& item_of(void* context) { return *static_cast<CborItem*>(context); }

/// A number, or the head of a container with so many items.
template <CborItem::Kind kKind, typename T> void take_number(void* context, T value) {
    item_of(context) = {.kind = kKind, .value = value};
}

template <CborItem::Kind kKind>
void take_string(void* context, const unsigned char* data, size_t size) {
    item_of(context) = {.kind = kKind, .bytes = {data, size}};
}

template <CborItem::Kind kKind> void take_indefinite(void* context) {
    item_of(context) = {.kind = kKind, .indefinite = true};
}

template <CborItem::Kind kKind, typename... T> void take_bare(void* context, T... /*value*/) {
    item_of(context) = {.kind = kKind};
}

cbor_callbacks make_callbacks() {
    using Kind = CborItem::Kind;
    return {
        .uint8 = take_number<Kind::kUnsigned>,
        .uint16 = take_number<Kind::kUnsigned>,
        .uint32 = take_number<Kind::kUnsigned>,
        .uint64 = take_number<Kind::kUnsigned>,
        .negint64 = take_number<Kind::kNegative>,
        .negint32 = take_number<Kind::kNegative>,
        .negint16 = take_number<Kind::kNegative>,
        .negint8 = take_number<Kind::kNegative>,
        .byte_string_start = take_indefinite<Kind::kBytes>,
        .byte_string = take_string<Kind::kBytes>,
        .string = take_string<Kind::kText>,
        .string_start = take_indefinite<Kind::kText>,
        .indef_array_start = take_indefinite<Kind::kArray>,
        .array_start = take_number<Kind::kArray>,
        .indef_map_start = take_indefinite<Kind::kMap>,
        .map_start = take_number<Kind::kMap>,
        .tag = take_number<Kind::kTag>,
        .float2 = take_bare<Kind::kOther>,
        .float4 = take_bare<Kind::kOther>,
        .float8 = take_bare<Kind::kOther>,
        .undefined = take_bare<Kind::kOther>,
        .null = take_bare<Kind::kOther>,
        .boolean = take_bare<Kind::kOther>,
        .indef_break = take_bare<Kind::kBreak>,
    };
}

} // namespace

void CborReader::fail(const std::string& what) {
    if (error_.empty()) {
        error_ = fmt::format("byte {}: {}", offset_, what);
    }
}

/// Whether at least `size` bytes are at hand, after reading as much as is needed.
bool CborReader::fill(size_t size) {
    if (left().size() >= size) {
        return true;
    }
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
    while (buffer_.size() < size) {
        const size_t have = buffer_.size();
        buffer_.resize(std::max(size, have + kChunk));
        // A live pipe may have no more for now.
        const std::int64_t got = stream_->read_some(buffer_.data() + have, buffer_.size() - have);
        buffer_.resize(have + static_cast<size_t>(std::max<std::int64_t>(got, 0)));
        if (got <= 0) {
            return false;
        }
    }
    return true;
}

CborItem CborReader::next() {
    static const cbor_callbacks kCallbacks = make_callbacks();
    for (size_t wanted = 1; ok();) {
        if (!fill(wanted)) {
            fail(stream_->error().empty() ? "the file ends within an item" : stream_->error());
            break;
        }
        CborItem item;
        const Bytes bytes = left();
        const cbor_decoder_result result =
            cbor_stream_decode(bytes.data(), bytes.size(), &kCallbacks, &item);
        if (result.status == CBOR_DECODER_FINISHED) {
            used_ += result.read;
            offset_ += result.read;
            return item;
        }
        // The length of a hostile string may also wrap around.
        if (result.status == CBOR_DECODER_ERROR || result.required <= bytes.size()) {
            fail("not CBOR");
        } else if (result.required > kMostString) {
            fail(fmt::format("a string of over {} bytes", kMostString));
        }
        wanted = result.required;
    }
    return {};
}

std::uint64_t CborReader::number() {
    const CborItem item = next();
    if (item.kind != CborItem::Kind::kUnsigned) {
        fail("a number was expected");
        return 0;
    }
    return item.value;
}

std::int64_t CborReader::signed_number() {
    const CborItem item = next();
    const bool negative = item.kind == CborItem::Kind::kNegative;
    if ((!negative && item.kind != CborItem::Kind::kUnsigned) ||
        item.value > std::numeric_limits<std::int64_t>::max()) {
        fail("a whole number of 64 bits was expected");
        return 0;
    }
    const auto value = static_cast<std::int64_t>(item.value);
    return negative ? -1 - value : value;
}

void CborReader::string(std::vector<std::uint8_t>& out) {
    const CborItem head = next();
    const size_t before = out.size();
    if (head.kind != CborItem::Kind::kBytes && head.kind != CborItem::Kind::kText) {
        fail("a string was expected");
    }
    out.insert(out.end(), head.bytes.begin(), head.bytes.end());
    for (std::uint64_t i = 0; head.indefinite && more(head, i); ++i) {
        const CborItem piece = next();
        if (piece.kind != head.kind || piece.indefinite || out.size() - before > kMostString) {
            fail("a piece of a string was expected");
        }
        out.insert(out.end(), piece.bytes.begin(), piece.bytes.end());
    }
}

void CborReader::skip() {
    CborItem item = next();
    while (item.kind == CborItem::Kind::kTag) {
        item = next();
    }
    const bool map = item.kind == CborItem::Kind::kMap;
    if (item.kind == CborItem::Kind::kBreak) {
        fail("an end without a beginning");
    } else if (map || item.kind == CborItem::Kind::kArray || item.indefinite) {
        enter();
        for (std::uint64_t i = 0; more(item, i); ++i) {
            skip();
            if (map) {
                skip();
            }
        }
        --depth_;
    }
}

void CborReader::enter() {
    if (++depth_ > kMostDepth) {
        fail("items nested too deeply");
    }
}

CborItem CborReader::begin(CborItem::Kind kind) {
    const CborItem head = next();
    if (head.kind != kind) {
        fail(kind == CborItem::Kind::kMap ? "a map was expected" : "an array was expected");
    }
    enter();
    return head;
}

std::int64_t CborReader::map_key() {
    const CborItem item = next();
    const bool number =
        item.kind == CborItem::Kind::kUnsigned || item.kind == CborItem::Kind::kNegative;
    const bool text = item.kind == CborItem::Kind::kText || item.kind == CborItem::Kind::kBytes;
    if (!number && (!text || item.indefinite)) {
        fail("the key of a map was expected");
    }
    if (!number || item.value > std::numeric_limits<std::int32_t>::max()) {
        return kOddKey;
    }
    const auto value = static_cast<std::int64_t>(item.value);
    return item.kind == CborItem::Kind::kNegative ? -1 - value : value;
}

bool CborReader::more(const CborItem& head, std::uint64_t done) {
    if (!ok()) {
        return false;
    }
    if (!head.indefinite) {
        return done < head.value;
    }
    constexpr std::uint8_t kBreakByte = 0xff;
    if (!fill(1)) {
        fail("the file ends within a container");
        return false;
    }
    if (left().front() != kBreakByte) {
        return true;
    }
    next();
    return false;
}

bool CborReader::at_end() {
    const bool end = !fill(1);
    if (end && !stream_->error().empty()) {
        fail(stream_->error());
    }
    return end;
}

} // namespace reprise::trace
