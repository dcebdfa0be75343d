#include "core/tree/block_frame.hh"

#include "core/base/bytes.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

namespace reprise::tree {
namespace {

// Tags of replay.proto: field number << 3 | wire type.
constexpr std::uint8_t kFrameBlock = 6U << 3U | 2U;
constexpr std::uint8_t kBlockCount = 1U << 3U;
constexpr std::uint8_t kBlockRecordBytes = 2U << 3U | 2U;

/// Size, then three tags with their numbers, which are below 2^28.
constexpr size_t kHead = 4 + 3 * (1 + 4);

/// A few bytes at most, in order.
struct Head {
    std::array<char, kHead> bytes{};
    size_t size = 0;

    void put(std::uint8_t tag, size_t number) {
        bytes.at(size++) = static_cast<char>(tag);
        for (; number >= 0x80; number >>= 7U) {
            bytes.at(size++) = static_cast<char>(number | 0x80U);
        }
        bytes.at(size++) = static_cast<char>(number);
    }
};

/// A number after its tag; an error where the tag is another or the number is over 28 bits.
size_t number_after(Cursor& in, std::uint8_t tag) {
    if (in.u8() != tag) {
        in.skip(in.left() + 1);
    }
    size_t number = 0;
    for (unsigned shift = 0; shift < 28; shift += 7) {
        const size_t byte = in.u8();
        number |= (byte & 0x7fU) << shift;
        if (byte < 0x80) {
            return number;
        }
    }
    in.skip(in.left() + 1);
    return 0;
}

} // namespace

void BlockBuilder::append(Bytes record) {
    if (count_ == 0) {
        bytes_.reserve(std::max(usual_, kHead + record.size()));
        bytes_.resize(kHead);
    }
    bytes_.append(reinterpret_cast<const char*>(record.data()), record.size());
    ++count_;
}

Outgoing BlockBuilder::take() {
    const size_t records = bytes_.size() - kHead;
    Head head;
    head.put(kBlockCount, count_);
    head.put(kBlockRecordBytes, records);
    const size_t block = head.size + records;
    Head front;
    front.put(kFrameBlock, block);
    const auto frame = static_cast<std::uint32_t>(front.size + block);
    Outgoing out{.bytes = std::exchange(bytes_, {}),
                 .cost = {.records = std::exchange(count_, 0), .bytes = records}};
    out.start = kHead - sizeof frame - front.size - head.size;
    char* at = out.bytes.data() + out.start;
    std::memcpy(at, &frame, sizeof frame);
    std::memcpy(at + sizeof frame, front.bytes.data(), front.size);
    std::memcpy(at + sizeof frame + front.size, head.bytes.data(), head.size);
    usual_ = out.bytes.size() + out.bytes.size() / 8;
    return out;
}

void BlockBuilder::clear() {
    bytes_.clear();
    count_ = 0;
}

std::optional<BlockView> view_block(Bytes frame) {
    Cursor in(frame);
    const size_t block = number_after(in, kFrameBlock);
    if (!in.ok() || block != in.left()) {
        return std::nullopt;
    }
    const size_t count = number_after(in, kBlockCount);
    const size_t records = number_after(in, kBlockRecordBytes);
    if (!in.ok() || records != in.left()) {
        return std::nullopt;
    }
    return BlockView{.count = static_cast<std::uint32_t>(count), .records = in.take(records)};
}

} // namespace reprise::tree
