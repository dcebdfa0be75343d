#include "core/trace/forms/cdns/cdns_cbor.hh"

#include "core/base/bytes.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace reprise::trace {

bool Lookahead::fill(size_t size) {
    if (left().size() >= size) {
        return true;
    }
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
    while (buffer_.size() < size) {
        const Bytes more = stream_->next_block(); // a live pipe may have no more for now
        if (more.empty()) {
            return false;
        }
        buffer_.insert(buffer_.end(), more.begin(), more.end());
    }
    return true;
}

void CborReader::fail(const std::string& what) {
    if (error_.empty()) {
        error_ = fmt::format("byte {}: {}", offset_, what);
    }
}

/// Whether so many bytes of an item are at hand: it is an error where there are fewer.
bool CborReader::need(size_t size) {
    if (ok() && !in_.fill(size)) {
        fail(in_.error().empty() ? "the file ends within an item" : in_.error());
    }
    return ok();
}

/// The bytes of a string whose head has `head` bytes; empty where they are not there.
Bytes CborReader::string_behind(size_t head, std::uint64_t size) {
    if (size > kMostString) {
        fail(fmt::format("a string of over {} bytes", kMostString));
    }
    return need(head + size) ? in_.left().subspan(head, size) : Bytes{};
}

/// The first byte has the major type and a small number, or how many bytes of a number follow.
CborItem CborReader::next() {
    using Kind = CborItem::Kind;
    constexpr unsigned kNumberFollows = 24; // and 25, 26, 27: of twice the size each
    constexpr unsigned kIndefinite = 31;
    if (!need(1)) {
        return {};
    }
    const unsigned small = in_.left().front() & 0x1fU;
    const bool follows = small >= kNumberFollows && small < kNumberFollows + 4;
    size_t size = 1 + (follows ? size_t{1} << (small - kNumberFollows) : 0);
    if (!need(size)) {
        return {};
    }
    CborItem item{.kind = static_cast<Kind>(in_.left().front() >> 5U),
                  .indefinite = small == kIndefinite,
                  .value = follows ? 0 : small};
    for (const std::uint8_t byte : in_.left().subspan(1, size - 1)) {
        item.value = item.value << 8U | byte;
    }
    if (item.indefinite && item.kind == Kind::kOther) {
        item = {.kind = Kind::kBreak};
    }
    const bool container = item.kind >= Kind::kBytes && item.kind <= Kind::kMap;
    if ((small > kNumberFollows + 3 && small < kIndefinite) || (item.indefinite && !container)) {
        fail("not CBOR");
    }
    const bool string = item.kind == Kind::kBytes || item.kind == Kind::kText;
    if (string && !item.indefinite) {
        item.bytes = string_behind(size, item.value);
        size += item.bytes.size();
    }
    if (!ok()) {
        return {};
    }
    in_.take(size);
    offset_ += size;
    return item;
}

std::int64_t CborReader::number() {
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

/// A byte or text string, whole or in pieces.
Bytes CborReader::string() {
    const CborItem head = next();
    if (head.kind != CborItem::Kind::kBytes && head.kind != CborItem::Kind::kText) {
        fail("a string was expected");
    }
    string_.assign(head.bytes.begin(), head.bytes.end());
    for (std::uint64_t i = 0; head.indefinite && more(head, i); ++i) {
        const CborItem piece = next();
        if (piece.kind != head.kind || piece.indefinite || string_.size() > kMostString) {
            fail("a piece of a string was expected");
        }
        string_.insert(string_.end(), piece.bytes.begin(), piece.bytes.end());
    }
    charge(string_.size());
    return kept_.copy(string_);
}

void CborReader::charge(size_t bytes) {
    memory_ += bytes;
    if (memory_ > kMostMemory) {
        fail(fmt::format("a block of over {} MiB", kMostMemory >> 20U));
    }
}

std::span<CborValue> CborReader::room(size_t values) {
    const auto memory = kept_.allocate(values * sizeof(CborValue), alignof(CborValue));
    return {new (memory.data()) CborValue[values], values};
}

std::span<CborValue> CborReader::array(const CborShape& entry) {
    const CborItem head = begin(CborItem::Kind::kArray);
    std::vector<CborValue> entries;
    for (std::uint64_t i = 0; more(head, i); ++i) {
        const CborValue one = read(entry);
        charge(sizeof one);
        if (ok()) {
            entries.push_back(one);
        }
    }
    --depth_;
    const std::span<CborValue> values = room(entries.size());
    std::ranges::copy(entries, values.begin());
    return values;
}

std::span<CborValue> CborReader::map(const CborShape& shape) {
    const CborItem head = begin(CborItem::Kind::kMap);
    const std::span<CborValue> values = room(shape.numbers + shape.count);
    charge(values.size_bytes());
    for (std::uint64_t i = 0; more(head, i); ++i) {
        const std::uint64_t key = map_key();
        if (key < values.size()) {
            values[key] =
                key < shape.numbers ? CborValue(number()) : read(shape.parts[key - shape.numbers]);
        } else {
            skip();
        }
    }
    --depth_;
    return values;
}

CborValue CborReader::read(const CborShape& shape) {
    switch (shape.kind) {
    case CborItem::Kind::kUnsigned:
        return CborValue(number());
    case CborItem::Kind::kBytes:
        return CborValue(string());
    case CborItem::Kind::kArray:
        return CborValue(array(*shape.parts));
    case CborItem::Kind::kMap:
        return CborValue(map(shape));
    default:
        skip();
        return {};
    }
}

void CborReader::forget() {
    kept_.clear();
    memory_ = 0;
}

/// Passes over one item with all it holds; tags belong to the item behind them.
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

/// A map's next key; kOddKey for one that is no number from 0 on.
std::uint64_t CborReader::map_key() {
    const CborItem item = next();
    if (item.kind > CborItem::Kind::kText || item.indefinite) {
        fail("the key of a map was expected");
    }
    return item.kind == CborItem::Kind::kUnsigned ? item.value : kOddKey;
}

bool CborReader::more(const CborItem& head, std::uint64_t done) {
    if (!ok()) {
        return false;
    }
    if (!head.indefinite) {
        return done < head.value;
    }
    constexpr std::uint8_t kBreakByte = 0xff;
    if (!in_.fill(1)) {
        fail("the file ends within a container");
        return false;
    }
    if (in_.left().front() != kBreakByte) {
        return true;
    }
    next();
    return false;
}

bool CborReader::at_end() {
    const bool end = !in_.fill(1);
    if (end && !in_.error().empty()) {
        fail(in_.error());
    }
    return end;
}

} // namespace reprise::trace
